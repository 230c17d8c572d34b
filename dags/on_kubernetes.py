"""A build whose Spark applications the Spark operator of Kubernetes runs. Needs
``apache-airflow-providers-cncf-kubernetes``, and the Spark operator in the cluster.

After a lost worker, a retry starts a new driver; the one that nobody waits for sees it, and ends within seconds. A
killed task deletes its SparkApplication, and with it the driver.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, BaseOperator
from places import LAKE

from airflow_backfill.operators.launch import Launch
from airflow_backfill.task_groups.backfill import BackfillTaskGroup

IMAGE = "registry.example/table-backfill:4.2.0"
"""Spark with Delta's jar and this package, see docs/platforms.md."""
DRIVER: dict[str, Any] = {
    "cores": 1,
    "memory": "2g",
    "serviceAccount": "spark",
    # For topics: the connection, from a secret of Kubernetes.
    # "envSecretKeyRefs": {"AIRFLOW_BACKFILL_KAFKA": {"name": "kafka", "key": "connection"}},
}
EXECUTOR: dict[str, Any] = {"cores": 2, "instances": 2, "memory": "4g"}


def with_kubernetes(launch: Launch) -> BaseOperator:
    """Start an application as a SparkApplication."""
    from airflow.providers.cncf.kubernetes.operators.spark_kubernetes import SparkKubernetesOperator

    return SparkKubernetesOperator(
        task_id="kubernetes",
        kubernetes_conn_id="kubernetes_default",
        namespace="spark",
        name=f"{launch.name[:40]}-{launch.attempt[:16]}",
        random_name_suffix=False,
        # A driver belongs to one attempt: never take that of an earlier one for it.
        reattach_on_restart=False,
        get_logs=False,
        template_spec={
            "apiVersion": "sparkoperator.k8s.io/v1beta2",
            "kind": "SparkApplication",
            "spec": {
                "type": "Python",
                "pythonVersion": "3",
                "mode": "cluster",
                "image": IMAGE,
                "mainApplicationFile": launch.application,
                "arguments": list(launch.arguments),
                "sparkConf": dict(launch.conf),
                "sparkVersion": "4.2.0",
                # Airflow retries: it goes by the outcome.
                "restartPolicy": {"type": "Never"},
                "timeToLiveSeconds": 3600,
                "driver": DRIVER,
                "executor": EXECUTOR,
            },
        },
    )


with DAG("orders_on_kubernetes", schedule=None, max_active_runs=1, tags=["table backfill"]):
    BackfillTaskGroup(
        "orders",
        source=f"{LAKE}/shop/orders",
        target=f"{LAKE}/kubernetes/orders",
        key=["order_id"],
        max_lag=timedelta(minutes=5),
        submit=with_kubernetes,
        spark={"applications": "local:///opt/table-backfill/spark_apps", "py_files": ""},
    )
