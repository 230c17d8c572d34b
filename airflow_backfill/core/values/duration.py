"""Durations, for options and messages."""

from __future__ import annotations

from datetime import timedelta

from airflow_backfill.core.values.options import invalid

LONGEST = timedelta(days=36_500)
"""Nobody waits for longer, and far longer ones end after the last date that Python knows."""


def duration(field: str, value: timedelta | float, least: timedelta = timedelta(0)) -> timedelta:
    """A duration, or a number of seconds, as Airflow takes both; InvalidSpec for anything else, below ``least``,
    or above ``LONGEST``.
    """
    try:
        found = value if isinstance(value, timedelta) else timedelta(seconds=value)
    except (TypeError, ValueError, OverflowError):
        found = None
    if found is None or isinstance(value, bool) or not least <= found <= LONGEST:
        limit = f"from {lasting(least.total_seconds())} to {LONGEST.days // 365} years"
        raise invalid(field, value, f"must be a duration {limit}: a timedelta, or a number of seconds")
    return found


def lasting(seconds: float) -> str:
    """The duration in the largest unit that gives at least 2, e.g. ``2.5 hours``."""
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} seconds"
