"""A build whose Spark applications run as jobs of Databricks. Needs ``apache-airflow-providers-databricks``.

A retry rejoins the run of a lost worker, and a killed task cancels it.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, BaseOperator
from places import CODE, LAKE

from airflow_backfill.operators.launch import Launch
from airflow_backfill.task_groups.backfill import BackfillTaskGroup

CLUSTER = {
    "spark_version": "18.0.x-scala2.13",
    "node_type_id": "i3.xlarge",
    "num_workers": 2,
    # For topics: the connection, from a secret of Databricks.
    # "spark_env_vars": {"AIRFLOW_BACKFILL_KAFKA": "{{secrets/kafka/connection}}"},
}


def with_databricks(launch: Launch, polling_period_seconds: float = 30) -> BaseOperator:
    """Start an application as a run of Databricks, on a cluster of its own."""
    from airflow.providers.databricks.operators.databricks import DatabricksSubmitRunOperator

    return DatabricksSubmitRunOperator(
        task_id="databricks",
        databricks_conn_id="databricks_default",
        run_name=f"{launch.name} {launch.target}",
        idempotency_token=launch.attempt,
        spark_python_task={"python_file": launch.application, "parameters": list(launch.arguments)},
        libraries=[{"pypi": {"package": "airflow-backfill"}}],
        new_cluster={**CLUSTER, "spark_conf": dict(launch.conf)},
        polling_period_seconds=polling_period_seconds,
        deferrable=False,
    )


with DAG("orders_on_databricks", schedule=None, max_active_runs=1, tags=["table backfill"]):
    BackfillTaskGroup(
        "orders",
        source=f"{LAKE}/shop/orders",
        target=f"{LAKE}/databricks/orders",
        key=["order_id"],
        max_lag=timedelta(minutes=5),
        submit=with_databricks,
        spark={"applications": f"{CODE}/spark_apps"},
    )
