"""Durations as people say them."""

from __future__ import annotations


def lasting(seconds: float) -> str:
    """In the largest unit of which there are at least two."""
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} seconds"
