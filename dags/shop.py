"""Twenty small tables with one build each: a loop over the task group."""

from __future__ import annotations

from airflow.sdk import DAG
from places import LAKE, spark

from airflow_backfill.task_groups.backfill import BackfillTaskGroup

KEYS = {
    **{name: f"{name}_id" for name in ("address", "brand", "carrier", "cart", "category", "coupon", "customer")},
    **{name: f"{name}_id" for name in ("employee", "gift_card", "invoice", "payment", "price", "product", "refund")},
    **{name: f"{name}_id" for name in ("review", "shipment", "store", "supplier", "tax", "warehouse")},
}

# Each build runs one Spark application at a time; the DAG runs four at most.
with DAG("shop_backfill", schedule=None, max_active_runs=1, max_active_tasks=4, tags=["table backfill"]):
    for table, key in KEYS.items():
        BackfillTaskGroup(
            table,
            source=f"{LAKE}/shop/{table}",
            target=f"{LAKE}/copies/{table}",
            key=[key],
            spark=spark(),
        )
