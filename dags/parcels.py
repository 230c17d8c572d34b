"""The DAGs of the Kafka demo: a table with the last value of each key of a topic, and its consumer."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG
from places import LAKE, spark

from airflow_backfill.operators.upstream import UpstreamOperator
from airflow_backfill.sensors.await_finish import AwaitFinishSensor
from airflow_backfill.task_groups.backfill import BackfillTaskGroup

TARGET = f"{LAKE}/targets/parcels"
ROUND_ROWS = 100_000
"""Small rounds, so that the demo shows more commits."""

with DAG("parcels", schedule=None, max_active_runs=1, tags=["table backfill"]):
    BackfillTaskGroup(
        "parcels",
        source=f"{LAKE}/landing/parcels",
        target=TARGET,
        strategy="source",
        topic={
            "name": "parcels",
            "key": "json:id BIGINT",
            "value": "json:status STRING, depot STRING, grams BIGINT",
        },
        key=["id"],
        select=["id", "status", "depot", "grams / 1000 AS kilograms", "partition", "offset"],
        where="status <> 'returned'",
        kafka_conn_id="kafka_default",
        max_lag=timedelta(minutes=5),
        round_rows=ROUND_ROWS,
        spark=spark(),
    )

with DAG("parcels_follow", schedule=None, max_active_runs=1, tags=["table backfill"]):
    await_finish = AwaitFinishSensor(task_id="await_finish", target=TARGET, poke_interval=5, deferrable=True)
    # This task needs no Kafka: new records come from the landing table.
    await_finish >> UpstreamOperator(task_id="upstream", target=TARGET, **spark())
