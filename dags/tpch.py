"""TPC-H's two large tables, built while they change, and followed afterwards: what the demo runs."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG
from places import LAKE, spark

from airflow_backfill.operators.upstream import UpstreamOperator
from airflow_backfill.sensors.await_finish import AwaitFinishSensor
from airflow_backfill.task_groups.backfill import BackfillTaskGroup

ROUND_ROWS = 1_500_000
"""Small rounds: more commits than it needs, and more to look at while it runs."""
REVENUE = "l_extendedprice * (1 - l_discount) AS l_revenue"

with DAG("tpch_backfill", schedule=None, max_active_runs=1, tags=["table backfill"]):
    BackfillTaskGroup(
        "orders",
        source=f"{LAKE}/tables/orders",
        target=f"{LAKE}/targets/orders",
        key=["o_orderkey"],
        max_lag=timedelta(minutes=5),
        round_rows=ROUND_ROWS,
        share_applications=True,
        spark=spark(),
    )
    BackfillTaskGroup(
        "lineitem",
        source=f"{LAKE}/tables/lineitem",
        target=f"{LAKE}/targets/lineitem",
        key=["l_orderkey", "l_linenumber"],
        select=["l_orderkey", "l_linenumber", "l_partkey", "l_quantity", REVENUE, "l_shipdate", "l_comment"],
        where="l_quantity > 1",
        # It verifies, too: the digests of six million rows, twice.
        task_args={"catch_up": spark(brief=False)},
        max_lag=timedelta(minutes=5),
        round_rows=ROUND_ROWS,
        share_applications=True,
        spark=spark(),
    )

with DAG("tpch_follow", schedule=None, max_active_runs=1, tags=["table backfill"]):
    for table in ("orders", "lineitem"):
        target = f"{LAKE}/targets/{table}"
        await_finish = AwaitFinishSensor(task_id=f"{table}_await_finish", target=target)
        await_finish >> UpstreamOperator(task_id=f"{table}_upstream", target=target, **spark())
