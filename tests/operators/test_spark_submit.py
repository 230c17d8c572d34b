"""What this package takes from the inside of Airflow's operator for spark-submit is there."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, BaseOperator
from structlog.testing import capture_logs

import airflow_backfill
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.operators.launch import Launch
from airflow_backfill.operators.service import ServiceOperator
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
    assert "self.log.info(line)" in inspect.getsource(SparkSubmitHook._process_spark_submit_log)


@pytest.mark.parametrize("operator", [made, lambda: ServiceOperator(task_id="s", service="/tmp/service")])
def test_a_line_has_the_level_that_spark_gave_it(operator: Callable[[], Any]) -> None:
    lines = {
        "26/11/30 22:38:16 WARN Utils: Set SPARK_LOCAL_IP": "WARNING",
        "26/11/30 22:38:16 ERROR Executor: Exception in task 0.0": "ERROR",
        "2026-11-30 22:38:16,123 WARNING the rate is 0": "WARNING",
        "26/11/30 22:38:16 INFO SparkContext: ERROR is a word": "INFO",
        "a row with WARN in it": "INFO",
        "26/11/30 22:38:16 WARN 100 % of %s is full": "WARNING",
    }
    hook = operator()._get_hook()
    with capture_logs() as said:
        hook._process_spark_submit_log(iter(lines))
    assert [(one["log_level"].upper(), one["event"]) for one in said] == [(lines[line], line) for line in lines]


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
