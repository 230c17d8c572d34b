"""A shared ingestion: every five minutes, new records of the topic ``clicks`` land in a Delta table.

The brokers are those of the connection ``kafka_default``. Its secrets reach the application through an environment
variable. In deploy mode ``cluster`` the driver does not inherit it: set the variable from a secret of the cluster.
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
    # Two streams must not share one checkpoint.
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
