"""What this package takes from the inside of Airflow's operator for spark-submit is there."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

import airflow_backfill
from airflow_backfill.operators.spark_submit import SparkSubmit

PACKAGE = Path(airflow_backfill.__file__).parent


def test_the_operator_has_what_is_taken_from_its_inside() -> None:
    made = SparkSubmit(task_id="t")
    assert made._hook is None
    assert isinstance(SparkSubmitOperator._K8S_DRIVER_STATUS_KEY, str)
    hook = made._get_hook()
    assert isinstance(hook, SparkSubmitHook)
    assert "deploy_mode" in hook._connection
    assert hook._is_yarn_cluster_mode in (True, False)
    assert hook._yarn_application_id is None


def test_what_is_overridden_is_called_as_before() -> None:
    for name in ("execute_resumable", "poll_until_complete"):
        ours, theirs = (inspect.signature(getattr(kind, name)) for kind in (SparkSubmit, SparkSubmitOperator))
        assert list(ours.parameters) == list(theirs.parameters)
    assert "self.execute_resumable(context)" in inspect.getsource(SparkSubmitOperator.execute)
    assert "self.external_id_key" in inspect.getsource(SparkSubmitOperator.execute_resumable)


def test_nobody_else_reaches_inside() -> None:
    inside = re.compile(r"_get_hook|_yarn_application_id|_is_yarn_cluster_mode|_K8S_DRIVER|\)\._connection")
    found = [file.name for file in PACKAGE.rglob("*.py") if inside.search(file.read_text())]
    assert found == ["spark_submit.py"]
