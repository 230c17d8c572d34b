"""The DAGs of the demo: the two large tables of TPC-H, built while they change, and their consumers."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG
from places import LAKE, spark

from airflow_backfill.operators.upstream import UpstreamOperator
from airflow_backfill.sensors.await_finish import AwaitFinishSensor
from airflow_backfill.task_groups.backfill import BackfillTaskGroup

ROUND_ROWS = 1_500_000
"""Small rounds, so that the demo shows more commits."""
REVENUE = "l_extendedprice * (1 - l_discount) AS l_revenue"
TABLES: dict[str, dict[str, Any]] = {
    "orders": {"key": ["o_orderkey"]},
    "lineitem": {
        "key": ["l_orderkey", "l_linenumber"],
        "select": ["l_orderkey", "l_linenumber", "l_partkey", "l_quantity", REVENUE, "l_shipdate", "l_comment"],
        "where": "l_quantity > 1",
    },
}

for table, options in TABLES.items():
    source, target = f"{LAKE}/tables/{table}", f"{LAKE}/targets/{table}"

    with DAG(f"tpch_{table}", schedule=None, max_active_runs=1, tags=["table backfill"]):
        BackfillTaskGroup(
            table,
            source=source,
            target=target,
            strategy=os.environ.get("STRATEGY", "snapshot"),
            max_lag=timedelta(minutes=5),
            round_rows=ROUND_ROWS,
            poke_interval=5,
            spark=spark(),
            **options,
        )

    with DAG(f"tpch_{table}_follow", schedule=None, max_active_runs=1, tags=["table backfill"]):
        await_finish = AwaitFinishSensor(task_id="await_finish", target=target, poke_interval=5, deferrable=True)
        await_finish >> UpstreamOperator(task_id="upstream", target=target, **spark())
