"""What waits: the log's consumer while the hand-off is held, the gate, and the consumer's door."""

from __future__ import annotations

import threading

from airflow_backfill.core.values.control import Verb
from airflow_backfill.ledger.reader import BuildReader
from tests.airflow.dag_files import group
from tests.airflow.without_spark import built, commit_to, order


def held(airflow):
    return airflow.stored("orders.consume_log", "waiting") == ["the build is on hold"]


def applied(target):
    return BuildReader(str(target)).state().applied


def test_a_held_target_is_kept_fresh_and_handed_over_on_release(airflow, source, target):
    built(source, target, "plan")
    order(target, Verb.HOLD)
    file = group(airflow, source, target, "max_lag=1")
    with airflow.running(file, "build"):
        airflow.until(lambda: held(airflow))
        commit_to(source, 3)
        airflow.until(lambda: applied(target) == 6)
        commit_to(source, 4)
        airflow.until(lambda: applied(target) == 10)
        assert airflow.tasks()["orders.gate"] is None
        order(target, Verb.RELEASE)
    assert airflow.states == ["success"]
    assert airflow.tries("orders.consume_log") == 1
    assert airflow.returned("orders.finish")[0]["epoch"] == 10


def test_a_gate_that_waits_alone_keeps_the_target_fresh(airflow, source, target):
    """The hold, or here the window, begins after the log was consumed."""
    closed = 'max_lag=1, task_args={"gate": {"window": ("00:00", "00:00:00.000001", "UTC")}}'
    with airflow.running(group(airflow, source, target, closed), "build"):
        airflow.until(lambda: airflow.stored("orders.gate", "waiting") == ["the time window is closed"])
        assert airflow.tasks()["orders.consume_log"] == "success"
        commit_to(source, 3)
        airflow.until(lambda: applied(target) == 6)
        order(target, Verb.CANCEL)
    assert airflow.stored("orders.gate", "failure")["code"] == "CANCELLED"


def test_a_gate_that_is_skipped_hands_nothing_over(airflow, source, target):
    more = """default_args={"retries": 0, "trigger_rule": "none_failed"}, verify=False,
        window=("00:00", "00:00:00.000001", "UTC"), task_args={
        "consume_log": {"window": None}, "gate": {"soft_fail": True, "timeout": 0.3}
    }"""
    assert airflow.run(group(airflow, source, target, more), "build") == ["success"]
    last = [airflow.tasks()[f"orders.{task}"] for task in ("gate", "catch_up", "finish")]
    assert last == ["skipped"] * 3
    assert not airflow.events("orders_ready")


def test_the_door_opens_when_the_hand_off_is_committed(airflow, source, target):
    built(source, target, "plan", "snapshot", "consume_log", "catch_up", "verify")
    with airflow.running(group(airflow, source, target), "follow"):
        airflow.until(lambda: airflow.stored("await_finish", "waiting") == ["the build is in phase catch_up"])
        finishing = threading.Thread(target=built, args=(source, target, "finish"))
        finishing.start()
    finishing.join()
    assert airflow.states == ["success"]
    assert airflow.returned("await_finish") == [4]
