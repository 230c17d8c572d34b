"""The rows of a table at a version, as two engines that share no code read them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import SparkSession

from demo.journal import Row


def by_spark(spark: SparkSession, table: Path, version: int) -> Iterator[Row]:
    frame = spark.read.format("delta").option("versionAsOf", version).load(str(table))
    return (row.asDict() for row in frame.collect())


def by_delta_rs(table: Path, version: int) -> Iterator[Row]:
    query = QueryBuilder().register("rows", DeltaTable(table, version=version)).execute("SELECT * FROM rows")
    for batch in query:
        yield from pyarrow.record_batch(batch).to_pylist()


def changes_by_spark(spark: SparkSession, table: Path, first: int, last: int) -> Iterator[Row]:
    feed = spark.read.format("delta").option("readChangeFeed", "true")
    frame = feed.option("startingVersion", first).option("endingVersion", last).load(str(table))
    return (row.asDict() for row in frame.drop("_commit_timestamp").collect())
