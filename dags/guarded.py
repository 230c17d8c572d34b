"""A hand-off only at night, and only after an approval.

Until then the target stays fresh, without a worker and mostly without Spark. Four tasks read the snapshot in parallel
with more memory, and a parameter of the run selects the rows.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param
from places import LAKE, spark

from airflow_backfill.task_groups.backfill import BackfillTaskGroup

with DAG(
    "guarded_backfill",
    schedule=None,
    max_active_runs=1,
    params={"country": Param("DE", type="string", pattern="^[A-Z]{2}$")},
    default_args={"retries": 5, "retry_delay": timedelta(minutes=1)},
    tags=["table backfill"],
):
    BackfillTaskGroup(
        "customers",
        name="customers_{{ params.country }}",
        source=f"{LAKE}/shop/customer",
        target=f"{LAKE}/marts/customers_{{{{ params.country }}}}",
        key=["customer_id"],
        where="country = '{{ params.country }}'",
        max_lag=20,
        lanes=4,
        window=("22:00", "06:00", "Europe/Berlin"),
        approval={"subject": "Hand over the customers of {{ params.country }}?"},
        spark=spark(),
        task_args={"snapshot": {"driver_memory": "4g"}},
    )
