"""How a task runs its application, and what it makes of its end."""

from __future__ import annotations

import json
import zipfile

import pytest

from tests.airflow.dag_files import group
from tests.airflow.without_spark import built


def test_a_launcher_is_told_the_public_command_line(airflow, source, target):
    more = 'submit=told, spark={"conf": {"spark.a": "b"}}, verify=False, default_args={"retries": 0}'
    assert airflow.run(group(airflow, source, target, more), "build") == ["success"]
    assert "orders.verify" not in airflow.tasks()
    launch = json.loads(target.with_name("launch-orders.plan.json").read_text())
    assert launch["application"].endswith("spark_apps/plan.py")
    assert launch["conf"] == {"spark.submit.callSystemExitOnMainExit": "true", "spark.a": "b"}
    names = zipfile.ZipFile(launch["py_files"]).namelist()
    assert "airflow_backfill/core/attempts/attempt.py" in names
    assert not [name for name in names if "/operators/" in name]


def test_a_launcher_may_defer(airflow, source, target):
    assert airflow.run(group(airflow, source, target, "submit=run_later"), "build") == ["success"]
    assert airflow.returned("orders.finish")[0]["epoch"] == 3
    assert {try_number for task in airflow.tasks() for try_number in [airflow.tries(task)]} == {1}
    assert airflow.pulled("orders.plan", "_link_SparkUiLink") == ["http://spark.test/1"]


@pytest.mark.parametrize(("launcher", "attempts"), [("dies", 2), ("loses_touch", 1)])
def test_the_outcome_counts_not_the_process(airflow, source, target, launcher, attempts):
    built(source, target, "plan")
    more = f'task_args={{"snapshot": {{"submit": {launcher}, "retries": 1}}}}'
    assert airflow.run(group(airflow, source, target, more), "build") == ["success"]
    drawn = target.with_name("target.backfill").glob("attempts/*[0-9].json")
    tasks = [json.loads(path.read_text()).get("task") for path in drawn]
    assert tasks.count("snapshot") == attempts
    assert airflow.tries("orders.snapshot") == attempts


def test_a_fenced_attempt_is_not_tried_again(airflow, source, target):
    more = 'task_args={"catch_up": {"submit": fails, "retries": 3}}'
    assert airflow.run(group(airflow, source, target, more), "build") == ["failed"]
    assert airflow.tries("orders.catch_up") == 1
    assert airflow.stored("orders.catch_up", "failure")["code"] == "FENCED"
    assert airflow.tasks()["orders.verify"] == "upstream_failed"


@pytest.mark.parametrize("first", ["plan", "snapshot"])
def test_one_application_goes_on_to_the_finish_and_attempts_say_whose_they_are(airflow, source, target, first):
    if first == "snapshot":
        built(source, target, "plan")
    assert airflow.run(group(airflow, source, target, 'default_args={"retries": 1}'), "build") == ["success"]
    *others, path = sorted(target.with_name("target.backfill").glob("attempts/*[0-9].json"))
    mine = json.loads(path.read_text())
    assert len(others) == (first == "snapshot")
    assert [mine[name] for name in ("task", "dag_id", "try_number", "last_try")] == [first, "build", 1, False]
    assert mine["task_id"] == f"orders.{first}"
    assert airflow.returned("orders.verify")[0]["certificate"]["epoch"] == 3
    assert airflow.stored("orders.verify", "progress")["phase"] == "finished"
    assert len(airflow.events("orders_ready")) == 1


@pytest.mark.parametrize(
    ("more", "starts"),
    [
        *((f'strategy="{strategy}"', 1) for strategy in ("snapshot", "arrangement", "chain")),
        ("lanes=3", 5),
        ("share_applications=False", 6),
    ],
)
def test_how_often_a_build_starts_spark(airflow, source, target, more, starts):
    """The figures of docs/performance.md: each attempt is a start of Spark."""
    assert airflow.run(group(airflow, source, target, more), "build") == ["success"]
    assert len(list(target.with_name("target.backfill").glob("attempts/*[0-9].json"))) == starts


def test_what_a_shared_application_cannot_do_is_left_to_its_task(airflow, source, target):
    more = 'task_args={"finish": {"verified": True}}, verify=False'
    assert airflow.run(group(airflow, source, target, more), "build") == ["failed"]
    assert airflow.tasks()["orders.catch_up"] == "success"
    assert airflow.stored("orders.finish", "failure")["code"] == "VERIFICATION_FAILED"
