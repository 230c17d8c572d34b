"""A shared ingestion: every five minutes, the records of the topic ``clicks`` that have come land in a Delta table.

The Kafka is that of the connection ``kafka_default``. Its secrets travel in the environment of spark-submit, which is
where the application looks for them; a driver in deploy mode ``cluster`` inherits none, so there give it the variable
from a secret of the cluster.
"""

from __future__ import annotations

import pendulum
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, Context
from places import LAKE, spark

from airflow_backfill.hooks.kafka import inherited, kafka_environment
from airflow_backfill.operators.package import entry_points, package_zip


class LandingOperator(SparkSubmitOperator):
    def execute(self, context: Context) -> None:
        self.py_files = package_zip()
        with inherited(kafka_environment("kafka_default")):
            super().execute(context)


with DAG(
    "clicks_landing",
    schedule="*/5 * * * *",
    start_date=pendulum.datetime(2026, 1, 1),
    catchup=False,
    # Two streams with one checkpoint would stop each other.
    max_active_runs=1,
    tags=["table backfill"],
):
    LandingOperator(
        task_id="land",
        application=f"{entry_points()}/landing.py",
        application_args=[
            *("--topic", "clicks"),
            *("--table", f"{LAKE}/landing/clicks"),
            *("--checkpoint", f"{LAKE}/landing/clicks.checkpoint"),
        ],
        **spark(),
    )
