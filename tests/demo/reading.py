"""The rows of a table and their changes as Spark reads them; ``demo.reading`` shares no code with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from demo.journal import Row


def by_spark(spark: SparkSession, table: Path, version: int) -> Iterator[Row]:
    frame = spark.read.format("delta").option("versionAsOf", version).load(str(table))
    return (row.asDict() for row in frame.collect())


def changes_by_spark(spark: SparkSession, table: Path, first: int, last: int) -> Iterator[Row]:
    feed = spark.read.format("delta").option("readChangeFeed", "true")
    frame = feed.option("startingVersion", first).option("endingVersion", last).load(str(table))
    return (row.asDict() for row in frame.drop("_commit_timestamp").collect())
