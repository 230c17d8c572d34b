"""Records of a topic, as Spark's Kafka source gives them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession

RAW = (
    "topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, key BINARY, value BINARY, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
START = datetime(2026, 1, 1)
Record = tuple[int, int, bytes | None, bytes | None]
"""Partition, offset, key, value."""


def raw(spark: SparkSession, *records: Record) -> DataFrame:
    """The records, each a second after the one whose offset is before its own."""
    rows: list[tuple[Any, ...]] = [
        ("orders", partition, offset, START + timedelta(seconds=offset), key, value, [("trace", b"\x01")])
        for partition, offset, key, value in records
    ]
    return spark.createDataFrame(rows, RAW)


def values(spark: SparkSession, *found: bytes | None) -> DataFrame:
    """One record per value, without a key, at the offsets 0, 1, ..."""
    return raw(spark, *((0, offset, None, value) for offset, value in enumerate(found)))
