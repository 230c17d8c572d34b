"""Times that users write, such as ``2026-01-31T06:00+01:00``."""

from __future__ import annotations

from datetime import datetime

from airflow_backfill.core.values.options import invalid


def moment(field: str, text: str) -> int:
    """The time in ``text``, in milliseconds since 1970; InvalidSpec unless it is an ISO time with a zone."""
    try:
        found = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    except ValueError:
        raise invalid(field, text, "must be an ISO time, e.g. 2026-01-31T06:00+01:00") from None
    if found.tzinfo is None:
        raise invalid(field, text, "needs a time zone, e.g. 2026-01-31T06:00+01:00")
    return round(found.timestamp() * 1000)
