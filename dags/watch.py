"""Looks at all builds every five minutes, and tells which of them need a person: those without a task, too."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from airflow.sdk import DAG
from places import LAKE

from airflow_backfill.operators.watch import WatchOperator

if TYPE_CHECKING:
    from airflow.sdk import Context


def tell(context: Context) -> None:
    """Replace it with a notifier, such as that of your pager."""
    print("{name}: {kind}: {message}".format(**context["warning"]))


with DAG(
    "watch_table_backfills",
    schedule="*/5 * * * *",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    tags=["table backfill"],
):
    WatchOperator(
        task_id="watch",
        folder=LAKE,
        on_warning_callback=tell,
        warn_lag=timedelta(hours=2),
        retries=2,
        retry_delay=timedelta(minutes=1),
    )
