"""A table of events, with neither a key nor a change data feed, that is long to read; whoever waits for its epochs sees
them announced meanwhile.
"""

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
    # "seen" goes on while the snapshot is read: the source was there. "applied" is there with its rows.
    seen = AwaitEpochSensor(task_id="seen", target=TARGET, epoch="{{ params.epoch }}", reached="seen", deferrable=True)
    seen >> AwaitEpochSensor(task_id="applied", target=TARGET, epoch="{{ params.epoch }}", deferrable=True)
