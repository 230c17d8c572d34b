"""Servers that speak as much of a platform's API as its operator in Airflow uses, in front of a test's cluster.

Livy, Databricks and Kubernetes with its Spark operator are fakes, written from their documented API. EMR Serverless is
moto's, which starts no jobs by itself.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

from tests.platforms.cluster import Cluster, Created, serving

DATABRICKS = {"success": "SUCCESS", "failed": "FAILED", "killed": "CANCELED"}
PHASES = {"running": "Running", "success": "Succeeded", "failed": "Failed", "killed": "Failed"}
APPLICATION_STATES = {"running": "RUNNING", "success": "COMPLETED", "failed": "FAILED", "killed": "FAILED"}


@dataclass
class Platform:
    """Where a platform answers: the variables with which Airflow finds it."""

    cluster: Cluster
    variables: dict[str, str]


@contextmanager
def livy() -> Iterator[Platform]:
    """Livy's batches: https://livy.apache.org/docs/latest/rest-api.html"""
    cluster, names = Cluster(), list[str]()

    def batch(number: int) -> dict[str, Any]:
        return {"id": number + 1, "appId": f"application_{number}", "state": state(number)["state"], "log": []}

    def state(number: int) -> dict[str, Any]:
        named = {"success": "success", "running": "running", "failed": "dead", "killed": "killed"}
        return {"id": number + 1, "state": named[cluster.jobs[number].state]}

    def post(_: Any, body: Any) -> Any:
        assert body["name"] not in names and body["pyFiles"]
        names.append(body["name"])
        return batch(cluster.run(body["file"], body["args"], body))

    def delete(found: Any, _: Any) -> Any:
        cluster.kill(int(found[1]) - 1)
        return {"msg": "deleted"}

    routes = [
        ("POST", "/batches", post),
        ("GET", r"/batches/(\d+)", lambda found, _: batch(int(found[1]) - 1)),
        ("GET", r"/batches/(\d+)/state", lambda found, _: state(int(found[1]) - 1)),
        ("GET", r"/batches/(\d+)/log.*", lambda found, _: {"id": int(found[1]), "from": 0, "total": 0, "log": []}),
        ("DELETE", r"/batches/(\d+)", delete),
    ]
    with serving(routes) as url:
        host, port = url.removeprefix("http://").split(":")
        connection = {"conn_type": "livy", "host": host, "port": int(port)}
        yield Platform(cluster, {"AIRFLOW_CONN_LIVY_DEFAULT": json.dumps(connection)})


@contextmanager
def databricks() -> Iterator[Platform]:
    """Databricks' one-time runs: https://docs.databricks.com/api/workspace/jobs/submit"""
    cluster, tokens = Cluster(), dict[str, int]()

    def run(body: Any) -> Any:
        number = int(body["run_id"]) - 1
        if number >= len(cluster.jobs):
            return None
        state = cluster.jobs[number].state
        ended = {} if state == "running" else {"result_state": DATABRICKS[state]}
        life = "RUNNING" if state == "running" else "TERMINATED"
        url = f"https://databricks.test/run/{number}"
        return {"run_id": number + 1, "job_id": 1, "run_page_url": url, "state": {"life_cycle_state": life, **ended}}

    def submit(_: Any, body: Any) -> Any:
        token, task = body["idempotency_token"], body["spark_python_task"]
        assert len(token) <= 64 and body["new_cluster"] and body["run_name"]
        if token not in tokens:
            tokens[token] = cluster.run(task["python_file"], task["parameters"], body)
        return {"run_id": tokens[token] + 1}

    def cancel(_: Any, body: Any) -> Any:
        cluster.kill(int(body["run_id"]) - 1)
        return {"run_id": body["run_id"]}

    routes = [
        ("POST", "/api/2.2/jobs/runs/submit", submit),
        ("GET", r"/api/2\.2/jobs/runs/get\?run_id=(\d+)", lambda found, _: run({"run_id": found[1]})),
        ("POST", "/api/2.2/jobs/runs/cancel", cancel),
    ]
    with serving(routes) as url:
        host, port = url.removeprefix("http://").split(":")
        connection = {"conn_type": "databricks", "host": host, "port": int(port), "schema": "http", "password": "token"}
        yield Platform(cluster, {"AIRFLOW_CONN_DATABRICKS_DEFAULT": json.dumps(connection)})


@contextmanager
def kubernetes() -> Iterator[Platform]:
    """Kubernetes with SparkApplications: https://www.kubeflow.org/docs/components/spark-operator/"""
    cluster, numbers = Cluster(), dict[str, int]()
    root = "/apis/sparkoperator.k8s.io/v1beta2/namespaces/spark/sparkapplications"

    def create(_: Any, body: Any) -> Any:
        spec, name = body["spec"], body["metadata"]["name"]
        assert name not in numbers and spec["type"] == "Python" and spec["driver"]["serviceAccount"]
        numbers[name] = cluster.run(spec["mainApplicationFile"], spec["arguments"], body)
        return Created(body)

    def status(found: Any, _: Any) -> Any:
        job = cluster.jobs[numbers[found[1]]]
        return {"status": {"applicationState": {"state": APPLICATION_STATES[job.state]}}}

    def pod(found: Any, _: Any) -> Any:
        if found[1] not in numbers:
            return None
        job = cluster.jobs[numbers[found[1]]]
        ended = {"exitCode": 0 if job.state == "success" else 1}
        state = {"running": {}} if job.state == "running" else {"terminated": ended}
        container = {"name": "spark-kubernetes-driver", "ready": True, "restartCount": 0, "image": "i", "imageID": "i"}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{found[1]}-driver", "namespace": "spark", "labels": {"spark-role": "driver"}},
            "spec": {"containers": [{"name": "spark-kubernetes-driver"}]},
            "status": {"phase": PHASES[job.state], "containerStatuses": [{**container, "state": state}]},
        }

    def delete(found: Any, _: Any) -> Any:
        if found[1] not in numbers:
            return None
        cluster.kill(numbers.pop(found[1]))
        return {"kind": "Status", "status": "Success"}

    nothing: dict[str, Any] = {"items": []}
    routes = [
        ("POST", root, create),
        ("GET", rf"{root}/([\w-]+)/status", status),
        ("DELETE", rf"{root}/([\w-]+)", delete),
        ("GET", r"/api/v1/namespaces/spark/pods/([\w-]+)-driver", pod),
        ("PATCH", r"/api/v1/namespaces/spark/pods/([\w-]+)-driver", pod),
        ("GET", r"/api/v1/namespaces/spark/pods/[\w-]+-driver/log.*", lambda *_: {}),
        # The example gives its drivers no labels of a task: none is found.
        ("GET", r"/api/v1/namespaces/spark/pods\?.*", lambda *_: {"kind": "PodList", "apiVersion": "v1", **nothing}),
        ("GET", r"/api/v1/namespaces/spark/events.*", lambda *_: {"kind": "EventList", "apiVersion": "v1", **nothing}),
    ]
    with serving(routes) as url:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "clusters": [{"name": "test", "cluster": {"server": url}}],
            "users": [{"name": "test", "user": {"token": "t"}}],
        }
        connection = {"conn_type": "kubernetes", "extra": {"kube_config": json.dumps(config)}}
        yield Platform(cluster, {"AIRFLOW_CONN_KUBERNETES_DEFAULT": json.dumps(connection)})


@contextmanager
def emr_serverless() -> Iterator[Platform]:
    """moto's EMR Serverless, with jobs that run on the cluster."""
    from moto.emrserverless.models import JobRun
    from moto.server import ThreadedMotoServer

    cluster = Cluster()

    class Run(JobRun):
        """A run of moto, whose state is that of its job. The real service knows a client token for a day."""

        def __init__(self, **fields: Any) -> None:
            super().__init__(**fields)
            driver = (fields["job_driver"] or {})["sparkSubmit"]
            self.number = cluster.run(str(driver["entryPoint"]), list(driver["entryPointArguments"]), driver)

        @property
        def state(self) -> str:
            if not hasattr(self, "number"):
                return "PENDING"
            named = {"running": "RUNNING", "success": "SUCCESS", "failed": "FAILED", "killed": "CANCELLED"}
            return named[cluster.jobs[self.number].state]

        @state.setter
        def state(self, value: str) -> None:
            if value == "CANCELLED":
                cluster.kill(self.number)

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        _, port = server.get_host_and_port()
        variables = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "eu-west-1",
        }
        with mock.patch("moto.emrserverless.models.JobRun", Run):
            import boto3

            client = boto3.client(
                "emr-serverless",
                endpoint_url=variables["AWS_ENDPOINT_URL"],
                region_name="eu-west-1",
                aws_access_key_id="test",
                aws_secret_access_key="test",
            )
            made = client.create_application(releaseLabel="emr-7.0.0", type="SPARK", clientToken="t")
            variables["EMR_SERVERLESS_APPLICATION"] = made["applicationId"]
            yield Platform(cluster, variables)
    finally:
        server.stop()


PLATFORMS = {
    "livy": livy,
    "databricks": databricks,
    "kubernetes": kubernetes,
    "emr_serverless": emr_serverless,
}
REJOINS = ("livy", "databricks")
"""Platforms whose operators keep the handle of their job."""


def later(work: Any) -> threading.Thread:
    """Work in a thread of its own."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread
