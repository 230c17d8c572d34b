"""What an ordered build remembers of deletions: what counts, what is let go of, and what is never taken for empty."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from airflow_backfill.core.errors import MemoryLost
from airflow_backfill.spark.kafka import memory
from airflow_backfill.spark.kafka.tombstones import Tombstones
from airflow_backfill.spark.target_table.net_change import OP, NetChanges

pytestmark = pytest.mark.spark

SCHEMA = "id BIGINT, at INT, `p art` INT, o BIGINT"
Row = tuple[int, int, int, int]


def net(spark: SparkSession, upserts: list[Row], deletes: list[Row]) -> NetChanges:
    rows = [(*row, "upsert") for row in upserts] + [(*row, "delete") for row in deletes]
    frame = spark.createDataFrame(rows, f"{SCHEMA}, {OP} STRING")
    return NetChanges(frame, len(upserts), len(deletes), len(rows), False, {}, frame)


def made(spark: SparkSession, tmp_path: Path, key: list[str]) -> Tombstones:
    found = Tombstones(spark, str(tmp_path / "memory"), key, ["at", "p art", "o"])
    found.make(StructType.fromDDL(SCHEMA))
    return found


def test_a_deletion_counts_once_the_target_holds_its_record(spark: SparkSession, tmp_path: Path) -> None:
    tombstones = made(spark, tmp_path, ["id"])
    older, newer = (1, 10, 1, 3), (1, 30, 1, 4)
    deleted = net(spark, [], [(1, 20, 0, 7)])
    assert tombstones.sifted(deleted, {0: 7}).frame.count() == 1
    for held, expected in (({0: 7}, {newer[1]}), ({0: 6}, {10, 30}), ({1: 9}, {10, 30}), ({}, {10, 30})):
        left = tombstones.sifted(net(spark, [older, newer], []), held).frame.collect()
        assert {row["at"] for row in left} == expected


def test_the_newest_deletion_that_counts_stays(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What does not count yet stays, too; a round that is tried again adds nothing."""
    monkeypatch.setattr(memory, "TIDY_VERSIONS", 4)
    tombstones = made(spark, tmp_path, ["id", "at"])
    for at in (10, 10, 20, 30):
        tombstones.sifted(net(spark, [], [(1, 5, 0, at), (2, 5, 1, at)]), {0: at, 1: at})
        tombstones.tidy(lambda: {0: 20, 1: 9})
    kept = spark.read.format("delta").load(str(tmp_path / "memory"))
    assert {(row["key_0"], row["offset"]) for row in kept.collect()} == {(1, 20), (1, 30), (2, 10), (2, 20), (2, 30)}
    assert len(kept.inputFiles()) <= 2


def test_a_memory_that_is_missing_is_lost_and_not_empty(spark: SparkSession, tmp_path: Path) -> None:
    tombstones = Tombstones(spark, str(tmp_path / "memory"), ["id"], ["at", "p art", "o"])
    with pytest.raises(MemoryLost) as raised:
        tombstones.sifted(net(spark, [(1, 10, 1, 3)], []), {0: 7})
    assert raised.value.data == {"location": str(tmp_path / "memory")}
    assert not (tmp_path / "memory").exists()
