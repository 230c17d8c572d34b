"""Commands inside a round, on real jobs: what a command stops ends within seconds and leaves no row."""

from __future__ import annotations

import time
from pathlib import Path
from threading import Thread

import pytest
from pyspark.sql import SparkSession

from airflow_backfill.core.attempts.goals import SnapshotGoal
from airflow_backfill.core.errors import Fenced
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.core.values.phase import Event
from airflow_backfill.spark.run.application import reach
from airflow_backfill.spark.run.interpreter import Shell
from airflow_backfill.spark.session import interrupting
from airflow_backfill.spark.session.interrupting import interruptible
from tests.spark.build import Build
from tests.spark.history import Source
from tests.waiting import until

pytestmark = pytest.mark.spark

FOR_EVER = "sum(id % 7)"
"""Overflows in no session, whatever it is set to."""
SLOW = "n + aggregate(sequence(1, 3000000), 0L, (sum, one) -> sum + one % (id + 2)) AS slow"
"""Some seconds a row."""


def test_a_job_is_cancelled_and_what_is_done_afterwards_is_not(spark: SparkSession) -> None:
    begun = time.monotonic()
    with interruptible(spark, lambda: "paused", check_seconds=0.1) as unit, pytest.raises(Exception, match="cancel"):
        spark.range(10**13).selectExpr(FOR_EVER).collect()
    assert unit.stopped == "paused"
    assert time.monotonic() - begun < 60
    assert spark.range(1000).selectExpr("count(*) AS n").collect()[0]["n"] == 1000


def test_a_job_that_nobody_stops_goes_on_and_so_does_one_whose_commands_cannot_be_read(spark: SparkSession) -> None:
    def broken() -> str | None:
        raise OSError("no such folder")

    for stopped in (lambda: None, broken):
        with interruptible(spark, stopped, check_seconds=0.01) as unit:
            assert spark.range(100_000).selectExpr(FOR_EVER).collect()
        assert unit.stopped is None


def test_a_round_ends_when_airflow_has_started_a_newer_attempt_of_its_task(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process of a task was killed, and its application works on, where nobody waits for it any longer."""
    monkeypatch.setattr(interrupting, "CHECK_SECONDS", 0.2)
    build = Build(source, tmp_path / "target", select=["id", SLOW])
    planned = build.plan().plan.build
    task = {"task": "snapshot", "dag_id": "d", "task_id": "t.snapshot", "run_id": "r", "map_index": -1}
    control = build.reader.control
    control.draw_attempt({**task, "map_index": 1}, floor=10)
    me = control.draw_attempt(task, floor=10)
    control.draw_attempt({**task, "map_index": 2}, floor=10)
    control.draw_attempt({"task": "snapshot"}, floor=10)
    assert control.superseded_by(me) is None
    errors: list[Exception] = []

    def work() -> None:
        try:
            reach(SnapshotGoal(0, 1, build.size), Shell(build.spark, build.target, me=me), me, planned)
        except Exception as error:
            errors.append(error)

    thread = Thread(target=work)
    thread.start()
    until(lambda: [record.attempt for record in build.records()] == [me.name])
    until(build.spark.sparkContext.statusTracker().getActiveJobsIds)
    newer = control.draw_attempt({**task, "try_number": 2}, floor=0)
    thread.join(60)
    assert [type(error) for error in errors] == [Fenced] and control.superseded_by(me) == newer.name
    assert build.rows().count() == 0 and build.records()[-1].event is Event.CLAIM
    with pytest.raises(Fenced, match="newer attempt for the same task"):
        reach(SnapshotGoal(0, 1, build.size), Shell(build.spark, build.target, me=me), me, planned)


def test_a_pause_inside_a_round_is_acknowledged_and_no_row_is_there(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger=interrupting.log.name)
    monkeypatch.setattr(interrupting, "CHECK_SECONDS", 0.2)
    build = Build(source, tmp_path / "target", select=["id", SLOW])
    build.plan()
    errors: list[Exception] = []

    def work() -> None:
        try:
            build.run(SnapshotGoal(0, 1, build.size))
        except Exception as error:
            errors.append(error)

    thread = Thread(target=work)
    thread.start()
    until(lambda: len(build.records()) == 1)
    until(build.spark.sparkContext.statusTracker().getActiveJobsIds)
    number, begun = build.order(Command(Verb.PAUSE)), time.monotonic()
    until(lambda: build.reader.state().control.number == number)
    assert time.monotonic() - begun < 60
    assert [record.event for record in build.records()] == [Event.CLAIM, Event.MARK]
    assert build.rows().count() == 0
    assert "paused: the jobs of this round are cancelled" in caplog.text
    build.order(Command(Verb.CANCEL))
    thread.join(60)
    assert [getattr(error, "code", error) for error in errors] == ["CANCELLED"]
