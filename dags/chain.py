"""A large table of events without key and change data feed: epochs are announced while the snapshot is read."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG
from places import LAKE, spark

from airflow_backfill.sensors.await_epoch import AwaitEpochSensor
from airflow_backfill.task_groups.backfill import BackfillTaskGroup

TARGET = f"{LAKE}/marts/clicks"

with DAG("clicks_chain", schedule=None, max_active_runs=1, tags=["table backfill"]):
    BackfillTaskGroup(
        "clicks",
        source=f"{LAKE}/shop/clicks",
        target=TARGET,
        strategy="chain",
        max_lag=timedelta(minutes=5),
        spark=spark(),
    )

with DAG("clicks_consumer", schedule=None, params={"epoch": 1}, tags=["table backfill"]):
    # "seen": the epoch is announced, even while the snapshot is read. "applied": the target has its rows.
    seen = AwaitEpochSensor(task_id="seen", target=TARGET, epoch="{{ params.epoch }}", reached="seen", deferrable=True)
    seen >> AwaitEpochSensor(task_id="applied", target=TARGET, epoch="{{ params.epoch }}", deferrable=True)
