"""Whether values of rows may be shown: in errors, in their samples, and in explanations.

One Spark setting, so that it reaches every driver in every deploy mode: ``spark.table_backfill.redact``.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

REDACT = "spark.table_backfill.redact"
HIDDEN = "***"


def redacts() -> bool:
    """Whether values of rows are redacted in this application."""
    session = SparkSession.getActiveSession()
    value = None if session is None else session.conf.get(REDACT, None)
    return value is not None and value.strip().lower() not in ("false", "")


def shown(value: Any) -> str | None:
    """The value as messages and samples show it."""
    if value is None:
        return None
    return HIDDEN if redacts() else str(value)
