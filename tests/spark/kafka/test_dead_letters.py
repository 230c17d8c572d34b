"""The table of dead letters: each record once, whoever else writes to it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
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
