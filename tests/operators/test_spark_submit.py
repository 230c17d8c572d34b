"""What this package takes from the inside of Airflow's operator for spark-submit is there."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, BaseOperator

import airflow_backfill
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.operators.launch import Launch
from airflow_backfill.operators.snapshot import SnapshotOperator
from airflow_backfill.operators.spark_submit import ARGUMENTS, SparkSubmit, execute_inside

PACKAGE = Path(airflow_backfill.__file__).parent
LAUNCH = Launch("a.py", ("--b", "c"), "d.zip", {}, {}, "e", "group.f", "g", 7, "/h")


def made(**arguments: object) -> SparkSubmit:
    return SparkSubmit(launch=LAUNCH, arguments=arguments)


def test_the_operator_has_what_is_taken_from_its_inside() -> None:
    assert made()._hook is None
    assert isinstance(SparkSubmitOperator._K8S_DRIVER_STATUS_KEY, str)
    hook = made()._get_hook()
    assert isinstance(hook, SparkSubmitHook)
    assert {"deploy_mode", "spark_binary"} <= hook._connection.keys()
    assert hook._is_yarn_cluster_mode in (True, False)
    assert hook._yarn_application_id is None and hook._submit_sp is None


def test_an_operator_inside_of_a_task_is_no_mistake(caplog: pytest.LogCaptureFixture) -> None:
    class Inside(BaseOperator):
        def execute(self, context: object) -> None:
            self.log.info("inside")

    execute_inside(Inside(task_id="t"), {})
    assert "cannot be called outside" not in caplog.text


def test_a_task_takes_the_arguments_of_spark_submit() -> None:
    """Airflow looks for their names in default_args, and refuses names that it does not know."""
    assert {"conf", "conn_id", "deploy_mode", "driver_memory", "durable"} <= ARGUMENTS.keys()
    given = {"conf": {"a": "{{ ds }}"}, "conn_id": "cluster", "driver_memory": "2g", "unknown": 1}
    with DAG("d", schedule=None, default_args=given):
        one = SnapshotOperator(task_id="one", target="/t")
        lanes = SnapshotOperator.partial(task_id="lanes", target="/t", executor_cores=2).expand(lane=[0, 1])
    with pytest.raises(TypeError, match="unknown"):
        SnapshotOperator.partial(task_id="lanes", target="/t", unknown=2)
    assert one.spark == {"conf": {"a": "{{ ds }}"}, "name": "table-backfill-snapshot"}
    assert lanes.partial_kwargs["executor_cores"] == 2
    one.render_template_fields({"ds": "today"})
    submits = one._spark_submit(one._launch(Attempt(1, "me")))
    assert (submits.conf["a"], submits._conn_id, submits._driver_memory) == ("today", "cluster", "2g")


def test_what_is_overridden_is_called_as_before() -> None:
    for name in ("execute_resumable", "poll_until_complete"):
        ours, theirs = (inspect.signature(getattr(kind, name)) for kind in (SparkSubmit, SparkSubmitOperator))
        assert list(ours.parameters) == list(theirs.parameters)
    assert "self.execute_resumable(context)" in inspect.getsource(SparkSubmitOperator.execute)
    assert "self.external_id_key" in inspect.getsource(SparkSubmitOperator.execute_resumable)


def test_nobody_else_reaches_inside() -> None:
    inside = re.compile(
        r"_get_hook|_yarn_application_id|_is_yarn_cluster_mode|_K8S_DRIVER|_submit_sp|\)\._connection|Safeguard"
    )
    found = [file.name for file in PACKAGE.rglob("*.py") if inside.search(file.read_text())]
    assert found == ["spark_submit.py"]
