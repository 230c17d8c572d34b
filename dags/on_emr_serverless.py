"""A build whose Spark applications run as jobs of EMR Serverless. Needs ``apache-airflow-providers-amazon``.

After a lost worker, a retry starts a new job; the job that nobody waits for sees it, and ends within seconds. A killed
task cancels its job.
"""

from __future__ import annotations

import os
from datetime import timedelta

from airflow.sdk import DAG, BaseOperator
from places import CODE, LAKE

from airflow_backfill.operators.launch import Launch
from airflow_backfill.task_groups.backfill import BackfillTaskGroup

APPLICATION = os.environ.get("EMR_SERVERLESS_APPLICATION", "00example")
ROLE = os.environ.get("EMR_SERVERLESS_ROLE", "arn:aws:iam::123456789012:role/table-backfill")
CONF = {
    "spark.jars.packages": "io.delta:delta-spark_4.0_2.13:4.4.0",
    # The job has the zip; the packages that it needs are in a virtual environment.
    "spark.archives": f"{CODE}/environment.tar.gz#environment",
    "spark.emr-serverless.driverEnv.PYSPARK_PYTHON": "./environment/bin/python",
    "spark.executorEnv.PYSPARK_PYTHON": "./environment/bin/python",
}


def with_emr_serverless(launch: Launch, waiter_delay: int = 30) -> BaseOperator:
    """Start an application as a job of EMR Serverless."""
    from airflow.providers.amazon.aws.operators.emr import EmrServerlessStartJobOperator

    settings = {**launch.conf, "spark.submit.pyFiles": launch.py_files}
    return EmrServerlessStartJobOperator(
        task_id="emr_serverless",
        aws_conn_id="aws_default",
        application_id=APPLICATION,
        execution_role_arn=ROLE,
        client_request_token=launch.attempt,
        name=f"{launch.name}-{launch.attempt}",
        job_driver={
            "sparkSubmit": {
                "entryPoint": launch.application,
                "entryPointArguments": list(launch.arguments),
                "sparkSubmitParameters": " ".join(f"--conf {name}={value}" for name, value in settings.items()),
            }
        },
        waiter_delay=waiter_delay,
        waiter_max_attempts=100_000,
        deferrable=False,
    )


with DAG("orders_on_emr_serverless", schedule=None, max_active_runs=1, tags=["table backfill"]):
    BackfillTaskGroup(
        "orders",
        source=f"{LAKE}/shop/orders",
        target=f"{LAKE}/emr/orders",
        key=["order_id"],
        max_lag=timedelta(minutes=5),
        submit=with_emr_serverless,
        spark={"applications": f"{CODE}/spark_apps", "py_files": f"{CODE}/airflow_backfill.zip", "conf": CONF},
    )
