"""The demo: TPC-H ``orders`` and ``lineitem``, built while a writer keeps changing them, then followed."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from pathlib import Path

from airflow.sdk import DAG

from airflow_backfill.operators.upstream import UpstreamOperator
from airflow_backfill.sensors.await_finish import AwaitFinishSensor
from airflow_backfill.task_groups.backfill import BackfillTaskGroup

PLACE = Path(os.environ.get("TABLE_BACKFILL_DEMO", Path(__file__).parents[1] / ".demo"))
JARS = Path(os.environ.get("TABLE_BACKFILL_JARS", Path(__file__).parents[1] / ".venv" / "jars"))
SPARK = {
    "jars": ",".join(sorted(str(jar) for jar in JARS.glob("*.jar"))),
    "driver_memory": "2g",
    "conf": {"spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false", "spark.log.level": "ERROR"},
}
TABLES = {
    "orders": {
        "key": ["o_orderkey"],
        "select": ["o_orderkey", "o_custkey", "upper(o_orderstatus) AS status", "o_totalprice * 0.92 AS price_eur"],
        "where": "o_totalprice > 1000",
    },
    "lineitem": {
        "key": ["l_orderkey", "l_linenumber"],
        "select": ["l_orderkey", "l_linenumber", "l_quantity", "l_extendedprice * (1 - l_discount) AS revenue"],
    },
}

with DAG(
    "tpch_backfill",
    start_date=datetime(2026, 1, 1),
    schedule=None,
    catchup=False,
    max_active_tasks=1,
    doc_md=__doc__,
    tags=["table backfill"],
):
    for table, spec in TABLES.items():
        BackfillTaskGroup(
            table,
            source=str(PLACE / "tables" / table),
            target=str(PLACE / "targets" / table),
            max_lag=timedelta(minutes=2),
            round_bytes=64 << 20,
            poke_interval=2,
            spark=SPARK,
            **spec,
        )

with DAG("tpch_follow", start_date=datetime(2026, 1, 1), schedule=None, catchup=False, max_active_tasks=1):
    for table in TABLES:
        target = str(PLACE / "targets" / table)
        await_finish = AwaitFinishSensor(task_id=f"await_{table}", target=target, poke_interval=2)
        await_finish >> UpstreamOperator(task_id=f"follow_{table}", target=target, **SPARK)
