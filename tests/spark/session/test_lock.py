"""One process at a time may write a target on ``file:``; its threads hold the lock together."""

from __future__ import annotations

import fcntl
from pathlib import Path
from threading import Event, Thread

import pytest
from pyspark.sql import SparkSession

from airflow_backfill.core.errors import TargetBusy, UnsafeCommitStore
from airflow_backfill.spark.session import lock
from airflow_backfill.spark.session.lock import commit_guarantee, locked
from tests.spark.locks import free

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("store", [None, "io.delta.storage.S3SingleDriverLogStore", "io.delta.storage.LocalLogStore"])
def test_a_log_store_for_a_single_driver_is_refused(spark: SparkSession, store: str | None) -> None:
    session = spark.newSession()
    if store is not None:
        session.conf.set("spark.delta.logStore.s3a.impl", store)
    with pytest.raises(UnsafeCommitStore, match=r"set spark\.delta\.logStore\.s3a\.impl") as refused:
        commit_guarantee(session, "s3a://lake/t")
    assert store is None or store in refused.value.message


def test_stores_that_keep_two_writers_apart(spark: SparkSession) -> None:
    session = spark.newSession()
    session.conf.set("spark.delta.logStore.s3a.impl", "io.delta.storage.S3DynamoDBLogStore")
    assert commit_guarantee(session, "s3a://lake/t") == "the log store io.delta.storage.S3DynamoDBLogStore"
    for place in ("abfss://lake@account.dfs.core.windows.net/t", "gs://lake/t", "hdfs://nodes/t"):
        assert commit_guarantee(session, place) == "the store creates a commit only if it is absent"
    assert commit_guarantee(session, "/lake/t") == "a lock file; one writer at a time"


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
