"""Whether values of rows may be shown: in errors, in their samples, and in explanations.

One Spark setting, because settings reach every driver in every deploy mode: ``spark.table_backfill.redact``. It does
not cover what Spark itself logs, nor a topic's table of dead letters, whose purpose is to hold the records.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from airflow_backfill.core.values.hidden import HIDDEN

REDACT = "spark.table_backfill.redact"


def redacts() -> bool:
    """Whether values of rows are hidden in this application."""
    # Never imported for this question: tests of DAGs run where PySpark is not, or only its client.
    context = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    if context is None or context._active_spark_context is None:
        return False
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    return shows_no_values({REDACT: session.conf.get(REDACT, "false") or "false"})


def shows_no_values(settings: Mapping[str, str]) -> bool:
    """Whether values of rows are hidden under these settings of Spark."""
    return settings.get(REDACT, "false").strip().lower() != "false"


def shown(value: Any) -> str | None:
    """A value of a row, as messages and samples show it."""
    if value is None:
        return None
    return HIDDEN if redacts() else str(value)
