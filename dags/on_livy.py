"""A build whose Spark applications start through Apache Livy. Needs ``apache-airflow-providers-apache-livy``.

A retry rejoins the batch of a lost worker, and a killed task deletes it.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, BaseOperator
from places import CODE, LAKE

from airflow_backfill.operators.launch import Launch
from airflow_backfill.task_groups.backfill import BackfillTaskGroup


def with_livy(launch: Launch, polling_interval: float = 10) -> BaseOperator:
    """Start an application as a batch of Livy."""
    from airflow.providers.apache.livy.operators.livy import LivyOperator

    return LivyOperator(
        task_id="livy",
        livy_conn_id="livy_default",
        file=launch.application,
        args=launch.arguments,
        py_files=[launch.py_files],
        conf=dict(launch.conf),
        name=f"{launch.name}-{launch.attempt}",  # Livy refuses a second batch of the same name
        polling_interval=polling_interval,
        deferrable=False,
    )


with DAG("orders_on_livy", schedule=None, max_active_runs=1, tags=["table backfill"]):
    BackfillTaskGroup(
        "orders",
        source=f"{LAKE}/shop/orders",
        target=f"{LAKE}/livy/orders",
        key=["order_id"],
        max_lag=timedelta(minutes=5),
        submit=with_livy,
        spark={
            "applications": f"{CODE}/spark_apps",
            "py_files": f"{CODE}/airflow_backfill.zip",
            "conf": {"spark.jars.packages": "io.delta:delta-spark_4.2_2.13:4.4.0"},
        },
    )
