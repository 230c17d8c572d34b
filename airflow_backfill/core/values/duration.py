"""Durations for messages."""

from __future__ import annotations


def lasting(seconds: float) -> str:
    """The duration in the largest unit that gives at least 2, e.g. ``2.5 hours``."""
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} seconds"
