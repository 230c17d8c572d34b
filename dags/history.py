"""The whole history of the topic ``clicks`` as a table; the example ``landing.py`` lands new records."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG
from places import LAKE, spark

from airflow_backfill.operators.upstream import UpstreamOperator
from airflow_backfill.task_groups.backfill import BackfillTaskGroup

TARGET = f"{LAKE}/marts/clicks_history"

with DAG("clicks_history", schedule=None, max_active_runs=1, tags=["table backfill"]):
    BackfillTaskGroup(
        "clicks",
        source=f"{LAKE}/landing/clicks",
        target=TARGET,
        strategy="source",
        topic={"name": "clicks", "value": "string"},
        select=["partition", "offset", "timestamp", "value AS page"],
        kafka_conn_id="kafka_default",
        max_lag=timedelta(minutes=5),
        spark=spark(),
    )

with DAG("clicks_history_follow", schedule=None, max_active_runs=1, tags=["table backfill"]):
    # This task needs no Kafka: new records come from the landing table.
    UpstreamOperator(task_id="follow", target=TARGET, **spark())
