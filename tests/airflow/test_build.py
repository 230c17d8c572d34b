"""A whole build in Airflow, and everything that is done to one: run again, retried, cleared, refused."""

from __future__ import annotations

import shutil

import pytest

from airflow_backfill.testing.applications import ROWS
from tests.airflow.dag_files import group
from tests.airflow.without_spark import built, commit_to

_BRANCH = """
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.providers.standard.operators.python import BranchPythonOperator

with build:
    branch = BranchPythonOperator(task_id="branch", python_callable=lambda: "other")
    branch >> [EmptyOperator(task_id="other"), group]
"""


def test_build_and_follow(airflow, source, target):
    file = group(airflow, source, target, more="lanes=3")
    assert airflow.run(file, "build", "follow") == ["success", "success"]
    build = built(source, target).plan.build
    (planned,) = airflow.returned("orders.plan")
    assert (planned["target"], planned["build"], planned["epoch"], planned["read"]["of"]) == (str(target), build, 3, 4)
    assert len(airflow.returned("orders.snapshot")) == 3
    (finished,) = airflow.returned("orders.finish")
    assert (finished["epoch"], finished["certificate"]["epoch"]) == (3, 3)
    assert airflow.returned("await_finish") == [4]
    (event,) = airflow.events("orders_ready")
    assert (event["build"], event["epoch"], event["rows"]) == (build, 3, ROWS)
    assert airflow.events("orders") == []


def test_a_finished_build_is_left_alone(airflow, source, target):
    file = group(airflow, source, target)
    assert airflow.run(file, "build") == ["success"]
    version = built(source, target).proven
    shutil.rmtree(source)
    assert airflow.run(file, "build") == ["success"], airflow.tasks()
    assert built(source, target).proven == version
    for task in ("snapshot", "gate", "catch_up", "verify", "finish"):
        first, again = airflow.returned(f"orders.{task}")
        assert first == again
    assert len(airflow.events("orders_ready")) == 1


@pytest.mark.soak
def test_a_branch_that_goes_another_way_skips_the_build(airflow, source, target):
    file = group(airflow, source, target)
    file.write_text(f"{file.read_text()}\n{_BRANCH}")
    assert airflow.run(file, "build") == ["success"], airflow.tasks()
    assert {state for task, state in airflow.tasks().items() if task.startswith("orders.")} == {"skipped"}
    assert not target.exists()


def test_upstream_tells_of_rows_that_changed_once(airflow, source, target):
    """A mapped task may follow hundreds of tables that all tell one asset, and Airflow's database is cleaned."""
    built(source, target, "plan", "snapshot", "consume_log", "catch_up", "verify", "finish")
    file = group(airflow, source, target)
    commit_to(source, 2)
    assert airflow.run(file, "follow") == ["success"]
    airflow.others_told("orders", 150)
    assert airflow.run(file, "follow") == ["success"]
    (event,) = (one for one in airflow.events("orders") if "epoch" in one)
    assert (event["epoch"], event["epochs"], event["rows"]) == (5, 2, ROWS)
    airflow.forget_events()
    commit_to(source)
    assert airflow.run(file, "follow") == ["success"]
    assert [event["epochs"] for event in airflow.events("orders")] == [1]


def test_an_event_that_a_dead_worker_owed_is_told_by_the_next(airflow, source, target):
    # The hand-off and a round of upstream are committed, and no task that did it lived to say so.
    built(source, target, "plan", "snapshot", "consume_log", "catch_up", "verify", "finish")
    commit_to(source)
    built(source, target, "upstream")
    file = group(airflow, source, target)
    assert airflow.run(file, "build", "follow") == ["success", "success"]
    assert [event["epoch"] for event in airflow.events("orders_ready")] == [3]
    assert [event["epoch"] for event in airflow.events("orders")] == [4]


def test_another_layout_of_lanes_takes_over_in_the_middle(airflow, source, target):
    built(source, target, "plan", "snapshot", lanes=2)
    assert airflow.run(group(airflow, source, target, more="lanes=3"), "build") == ["success"]
    assert airflow.returned("orders.finish")[0]["epoch"] == 3
