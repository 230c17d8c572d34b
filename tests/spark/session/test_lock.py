"""One process at a time may write a target on ``file:``; its threads hold the lock together."""

from __future__ import annotations

import fcntl
from pathlib import Path
from threading import Event, Thread

import pytest
from pyspark.sql import SparkSession

from airflow_backfill.core.errors import TargetBusy
from airflow_backfill.spark.session import lock
from airflow_backfill.spark.session.lock import locked
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
