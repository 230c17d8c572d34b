"""A round reads exactly its files at exactly its version, whatever has happened to the table since."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from shutil import rmtree
from threading import Thread

import pytest
from pyspark.sql import SparkSession

from airflow_backfill.spark.delta.snapshot_files import SnapshotFiles
from airflow_backfill.spark.delta_internals import DeltaVersion
from tests.spark.history import Source, difference

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("kind", ["vectors", "odd names"])
def test_disjoint_ranges_of_files_are_the_version(history: Callable[[str], Source], kind: str) -> None:
    source = history(kind)
    pinned = SnapshotFiles(source.spark, source.path, 6)
    files = pinned.files
    assert len(files) > 3
    assert [f.path for f in files] == sorted(f.path for f in files)
    first, middle, last = range(0, 1), range(1, 3), range(3, len(files))
    whole = pinned.read(middle).union(pinned.read(first, last))
    assert difference(whole, source.at(6)) == []
    assert pinned.read(middle).count() == sum(f.rows for f in files[1:3])
    assert pinned.read(range(0)).count() == 0


def test_the_order_is_the_same_in_another_attempt(history: Callable[[str], Source]) -> None:
    source = history("vectors")
    jvm = source.spark.sparkContext._jvm
    one = SnapshotFiles(source.spark, source.path, 6).files
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    assert SnapshotFiles(source.spark.newSession(), source.path, 6).files == one


def test_an_empty_version_has_no_files(history: Callable[[str], Source]) -> None:
    source = history("vectors")
    assert SnapshotFiles(source.spark, source.path, 0).files == []


def test_a_table_that_was_replaced_by_one_with_as_many_versions_is_read_anew(
    spark: SparkSession, tmp_path: Path
) -> None:
    """In a service, where Delta remembers the former table."""
    for name in ("table", "other"):
        spark.range(3).write.format("delta").save(str(tmp_path / name))
    table = str(tmp_path / "table")
    former = SnapshotFiles(spark, table, 0).files
    due = SnapshotFiles(spark, str(tmp_path / "other"), 0).files
    rmtree(table)
    (tmp_path / "other").rename(table)
    assert SnapshotFiles(spark, table, 0).files == due != former


def test_delta_finds_the_session_in_a_thread_that_has_none(history: Callable[[str], Source]) -> None:
    source = history("vectors")
    active = SparkSession._get_j_spark_session_class(source.spark.sparkContext._jvm).getActiveSession
    version = DeltaVersion(source.spark, source.path, 6)
    found = []

    def read() -> None:
        found.append(active().isDefined())
        found.append(version.files.count() and active().isDefined())

    thread = Thread(target=read)
    thread.start()
    thread.join()
    assert found == [False, True]
