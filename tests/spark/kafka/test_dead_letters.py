"""The table of dead letters: each record once, whoever else writes to it."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from airflow_backfill.spark.kafka.dead_letters import SCHEMA, add

pytestmark = pytest.mark.spark


def letters(spark: SparkSession, topic: str, value: bytes = b"x") -> DataFrame:
    return spark.createDataFrame([(topic, 0, n, None, None, None, value, "no id", "json@1") for n in range(2)], SCHEMA)


def test_lanes_and_builds_add_to_one_table_at_the_same_time(spark: SparkSession, tmp_path: Path) -> None:
    place = str(tmp_path / "dead")
    with ThreadPoolExecutor() as pool:
        list(pool.map(partial(add, spark, place), [letters(spark, f"topic {n % 2}") for n in range(4)]))
    stored = spark.read.format("delta").load(place).select("topic", "offset").collect()
    assert sorted(map(tuple, stored)) == [(f"topic {n}", offset) for n in range(2) for offset in range(2)]


def test_a_topic_that_was_created_again_has_dead_letters_of_its_own(spark: SparkSession, tmp_path: Path) -> None:
    place = str(tmp_path / "dead")
    for value in (b"before", b"after", b"after"):
        add(spark, place, letters(spark, "clicks", value))
    stored = spark.read.format("delta").load(place).select("value", "offset").collect()
    assert sorted((bytes(value), offset) for value, offset in stored) == [
        (value, offset) for value in (b"after", b"before") for offset in range(2)
    ]


def test_people_may_delete_what_they_have_seen(spark: SparkSession, tmp_path: Path) -> None:
    """With DELETE and VACUUM as in any table of Delta, while a follower goes on; or all of it, with its folder."""
    place = str(tmp_path / "dead")
    add(spark, place, letters(spark, "clicks", b"before"))
    spark.sql(f"ALTER TABLE delta.`{place}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    spark.sql(f"DELETE FROM delta.`{place}` WHERE offset = 0")
    DeltaTable.forPath(spark, place).vacuum(168)
    add(spark, place, letters(spark, "clicks", b"after"))
    rows = spark.read.format("delta").load(place)
    assert sorted((bytes(one.value), one.offset) for one in rows.collect()) == [
        (b"after", 0),
        (b"after", 1),
        (b"before", 1),
    ]
    shutil.rmtree(place)
    add(spark, place, letters(spark, "clicks"))
    assert spark.read.format("delta").load(place).count() == 2
