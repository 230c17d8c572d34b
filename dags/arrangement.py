"""A table that is vacuumed every day and takes longer to read: each round reads the newest version, none is pinned."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG
from places import LAKE, spark

from airflow_backfill.task_groups.backfill import BackfillTaskGroup

with DAG("events_arrangement", schedule=None, max_active_runs=1, tags=["table backfill"]):
    BackfillTaskGroup(
        "events",
        source=f"{LAKE}/shop/events",
        target=f"{LAKE}/marts/events",
        strategy="arrangement",
        # The order of reading. The best key columns are those by which the files are clustered.
        key=["customer_id", "event_id"],
        max_lag=timedelta(minutes=5),
        spark=spark(),
    )
