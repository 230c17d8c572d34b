"""A service, and five small tables that it builds and follows: Spark starts once, not for each task."""

from __future__ import annotations

from datetime import timedelta

import pendulum
from airflow.sdk import DAG
from places import LAKE, spark

from airflow_backfill.operators.served import Served
from airflow_backfill.operators.service import ServiceOperator
from airflow_backfill.operators.upstream import UpstreamOperator
from airflow_backfill.task_groups.backfill import BackfillTaskGroup

SERVICE = f"{LAKE}/service"
TABLES = {"brand": "brand_id", "category": "category_id", "price": "price_id", "store": "store_id", "tax": "tax_id"}

with DAG(
    "table_backfill_service",
    schedule="@continuous",
    start_date=pendulum.datetime(2026, 1, 1),
    max_active_runs=1,
    tags=["table backfill"],
):
    ServiceOperator(task_id="serve", service=SERVICE, at_once=8, retries=3, **spark(brief=False))

with DAG("served_tables", schedule=None, max_active_runs=1, tags=["table backfill"]):
    for table, key in TABLES.items():
        source, target, served = f"{LAKE}/shop/{table}", f"{LAKE}/served/{table}", Served(SERVICE)
        build = BackfillTaskGroup(
            table, source=source, target=target, key=[key], max_lag=timedelta(minutes=5), submit=served
        )
        build >> UpstreamOperator(task_id=f"follow_{table}", target=target, submit=served)
