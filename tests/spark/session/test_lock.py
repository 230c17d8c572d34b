"""One process at a time may write a target on ``file:``; its threads hold the lock together."""

from __future__ import annotations

import fcntl
from itertools import count
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace

import pytest
from pyspark.sql import SparkSession

from airflow_backfill.core.attempts.goals import SnapshotGoal
from airflow_backfill.core.errors import TargetBusy
from airflow_backfill.spark.run.application import work
from airflow_backfill.spark.run.phases import parser
from airflow_backfill.spark.session import lock
from airflow_backfill.spark.session.lock import PATIENCE_SECONDS, locked
from tests.core.tasks import ONE_FILE
from tests.ledger.json_target import JsonBuild
from tests.spark.locks import free

pytestmark = pytest.mark.spark


def test_threads_hold_it_together_until_the_last_lets_go(spark: SparkSession, tmp_path: Path) -> None:
    target = str(tmp_path / "t")
    held, first, second = Event(), Event(), Event()

    def hold(until: Event) -> None:
        with locked(spark, target):
            held.set()
            until.wait(30)

    threads = [Thread(target=hold, args=(until,)) for until in (first, second)]
    for thread in threads:
        held.clear()
        thread.start()
        assert held.wait(30) and not free(target)
    first.set()
    threads[0].join()
    assert not free(target), "another thread writes"
    second.set()
    threads[1].join()
    assert free(target)
    with locked(spark, target):
        assert not free(target)
    assert free(target)


def test_an_error_releases_it_and_the_end_of_the_process_does_not(spark: SparkSession, tmp_path: Path) -> None:
    target = str(tmp_path / "t")
    with pytest.raises(ValueError), locked(spark, target):
        raise ValueError
    assert free(target)
    with pytest.raises(KeyboardInterrupt), locked(spark, target):
        raise KeyboardInterrupt
    assert not free(target), "the JVM may still write"
    lock._release(Path(f"{target}.backfill/lock"))


def test_another_writer_is_waited_for_and_then_named(spark: SparkSession, tmp_path: Path) -> None:
    target = str(tmp_path / "t")
    with locked(spark, target):
        pass
    with open(f"{target}.backfill/lock", "r+") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        with pytest.raises(TargetBusy, match=r"t\.backfill/lock"), locked(spark, target, patience_seconds=0.0):
            pass
    with locked(spark, target, patience_seconds=0.0):
        pass


class Turn(Event):
    """The turn of another lane: at each look of the one that waits it commits once more, until its files are read."""

    def __init__(self, build: JsonBuild) -> None:
        super().__init__()
        self._build, self._lane, self.looks = build, build.start(SnapshotGoal(0, 2, ONE_FILE)), 0
        self._file = open(f"{build.location}.backfill/lock", "w")
        fcntl.lockf(self._file, fcntl.LOCK_EX)

    def wait(self, timeout: float | None = None) -> bool:
        self.looks += 1
        before = self._build.reader.log.head()
        while not self._lane.ended and self._build.reader.log.head() == before:
            self._lane.step()
        if self._lane.ended:
            self._file.close()
        return False


def test_a_lane_waits_for_its_turn_for_as_long_as_the_other_one_commits(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = JsonBuild(tmp_path)
    build.plan(lanes=2)
    build.run(SnapshotGoal(1, 2, ONE_FILE))
    me, turn = build.attempt(), Turn(build)
    monkeypatch.setattr(lock, "time", SimpleNamespace(monotonic=count(0, PATIENCE_SECONDS / 3).__next__))
    options = parser("snapshot").parse_args(["--target", build.location, "--lane", "1", "--lanes", "2"])
    assert work("snapshot", options, spark, me, turn)["read"] == {"unit": "files", "done": 6, "of": 6}
    assert turn.looks > 3
