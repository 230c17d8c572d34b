"""A writer that waits for a build, and a build that is throttled, in one run of a DAG."""

from __future__ import annotations

import pytest

from airflow_backfill.ledger.reader import BuildReader
from tests.airflow.without_spark import built, commit_to

DAG = """
from airflow.sdk import DAG, task
from airflow_backfill.core.values.limit import Limit
from airflow_backfill.operators.throttle import ThrottleOperator
from airflow_backfill.sensors.admission import AdmissionSensor

def by_load(context):
    return Limit(50_000, why="the load is 0.9")

with DAG("writer", schedule=None):
    may_write = AdmissionSensor(
        task_id="may_write", target={target!r}, max_lag=3, deferrable=True, poke_interval=0.2, timeout=100
    )

    @task
    def write(): ...

    ThrottleOperator(task_id="throttle", target={target!r}, signal=by_load) >> may_write >> write()
"""


@pytest.mark.soak
def test_a_writer_waits_until_the_build_has_caught_up(airflow, source, target):
    built(source, target, "plan", "snapshot", "consume_log")
    commit_to(source, 20)
    with airflow.running(airflow.write(DAG.format(target=str(target))), "writer"):
        reason = ["20 epochs are pending after epoch 3"]
        airflow.until(lambda: airflow.stored("may_write", "waiting") == reason)
        assert airflow.tasks()["write"] is None
        built(source, target, "consume_log")
    assert airflow.states == ["success"]
    assert airflow.returned("may_write") == [True]
    assert airflow.returned("throttle")[0]["did"] == "throttled"
    control = BuildReader(str(target)).state().control
    assert (control.number, control.rate) == (1, 50_000)
