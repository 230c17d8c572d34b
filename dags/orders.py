"""The simplest build: one table, orders in another currency, without drafts."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Asset
from places import LAKE, spark

from airflow_backfill.task_groups.backfill import BackfillTaskGroup

ORDERS_READY = Asset("orders_ready")

with DAG("orders_backfill", schedule=None, max_active_runs=1, tags=["table backfill"]):
    BackfillTaskGroup(
        "orders",
        source=f"{LAKE}/shop/orders",
        target=f"{LAKE}/marts/orders_eur",
        key=["order_id"],
        select=["order_id", "customer_id", "amount * 0.92 AS amount_eur", "status"],
        where="status <> 'draft'",
        max_lag=timedelta(minutes=5),
        handoff_asset=ORDERS_READY,
        spark=spark(),
    )
