"""A barrier without rows, compared with a plain append of one row to the same table."""

from __future__ import annotations

from pyspark.sql import SparkSession

from airflow_backfill.spark.target_table.apply import Txn, empty
from bench.ratio import Race, Timed
from bench.tables import Tables

COMMITS = 20


def barriers(spark: SparkSession, tables: Tables, source: str, rounds: int) -> Race:
    """Twenty commits each to a copy of ``source``."""

    def ours(number: int) -> Timed:
        target = tables.copied(source, f"barriers-{number}")

        def commit() -> None:
            for seq in range(COMMITS):
                empty(spark, target, Txn("bench", seq + 1), '{"a": "record"}')

        return commit

    def append(number: int) -> Timed:
        target = tables.copied(source, f"appends-{number}")
        row = spark.read.format("delta").load(target).limit(1).localCheckpoint()

        def commit() -> None:
            for _ in range(COMMITS):
                row.write.format("delta").mode("append").save(target)

        return commit

    return Race(f"{COMMITS} barriers without rows", {"table backfill": ours, "appends of one row": append}).run(rounds)
