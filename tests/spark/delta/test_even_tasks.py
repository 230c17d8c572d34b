"""A round's files are read in tasks of about equal bytes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from airflow_backfill.spark.delta.even_tasks import (
    FEW_TASKS,
    LEAST_BYTES,
    MOST_BYTES,
    end,
    filled,
    task_bytes,
)
from airflow_backfill.spark.delta.snapshot_files import SnapshotFiles

CONFS = [f"spark.sql.files.{name}" for name in ("maxPartitionBytes", "openCostInBytes", "minPartitionNum")]
MB = 1 << 20


def rows_of_tasks(frame: DataFrame) -> list[int]:
    return frame.rdd.glom().map(len).collect()


@pytest.mark.spark
def test_each_core_has_as_many_files(spark: SparkSession, tmp_path: Path) -> None:
    table = str(tmp_path / "table")
    spark.range(7_000).repartition(7).write.format("delta").save(table)
    pinned = SnapshotFiles(spark, table, 0)
    before = [spark.conf.get(name, None) for name in CONFS]
    spark.conf.set(CONFS[0], str(10 * MB))
    try:
        assert rows_of_tasks(pinned.read(range(7))) == [3_000, 3_000, 1_000], "what Spark does by itself"
        with pinned.evenly(range(7)):
            assert rows_of_tasks(pinned.read(range(7))) == [4_000, 3_000]
        assert spark.conf.get(CONFS[0]) == str(10 * MB)
    finally:
        spark.conf.unset(CONFS[0])
    assert [spark.conf.get(name, None) for name in CONFS] == before


@pytest.mark.parametrize(
    ("sizes", "cores", "tasks"),
    [
        ([2 * MB] * 150, 2, [76, 76, 76, 72]),
        ([300 * MB], 2, [75, 75, 75, 75]),
        ([100 * MB, 100 * MB, 10 * MB], 2, [100, 110]),
        ([MB, 3 * MB], 2, [2, 2]),
        ([], 2, []),
        ([MB] * 256, 1_000, [8] * 32),
        ([MB] * 16, 1_000, [1] * 16),
    ],
    ids=["small files", "one file", "two and a small one", "one for each core", "nothing", "many cores", "little"],
)
def test_the_last_core_ends_soon(sizes: list[int], cores: int, tasks: list[int]) -> None:
    assert [task // MB for task in filled(sizes, task_bytes(sizes, cores))] == tasks


@given(st.lists(st.integers(1, 300 * MB), min_size=1, max_size=60), st.integers(1, 16))
@example([100] * 5, 4)
@example([3] * 4, 3)
def test_no_core_works_for_much_longer_than_its_share(sizes: list[int], cores: int) -> None:
    size = task_bytes(sizes, cores)
    assert 1 <= size <= 1.5 * MOST_BYTES
    tasks = filled(sizes, size)
    assert sum(tasks) == sum(sizes) and max(tasks) <= size
    assert end(tasks, cores) <= end(filled(sizes, MOST_BYTES), cores) + size
    assert len(tasks) <= FEW_TASKS or sum(tasks) / len(tasks) > LEAST_BYTES / 2, "files are too small"
