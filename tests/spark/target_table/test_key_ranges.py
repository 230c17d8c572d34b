"""Ranges of the changed keys hold every changed key, and leave out what lies far from all of them."""

from __future__ import annotations

import random
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from airflow_backfill.spark.target_table.key_ranges import MOST, in_ranges, key_ranges
from airflow_backfill.spark.target_table.net_change import NetChanges
from airflow_backfill.spark.transform.literal import literal, ordinal

pytestmark = pytest.mark.spark


def net_of(spark: SparkSession, keys: list[Any], kind: str) -> NetChanges:
    texts = [(str(key),) for key in keys]
    frame = spark.createDataFrame(texts, "id string").select(F.col("id").cast(kind).alias("id"))
    of = frame.schema["id"].dataType
    value = ordinal(F.col("id"), of)
    low, high = frame.agg(F.min(value), F.max(value)).collect()[0]
    bounds = {"id": (str(literal(low, of)), str(literal(high, of)))}
    return NetChanges(frame, len(keys), 0, len(keys), False, bounds, staged=frame)


def held(spark: SparkSession, net: NetChanges, keys: list[Any], kind: str) -> list[bool]:
    frame = spark.createDataFrame([(n, str(key)) for n, key in enumerate(keys)], "n int, id string")
    ranges = key_ranges(net, "id")
    assert len(ranges) <= MOST
    rows = frame.select("n", in_ranges(F.col("id").cast(kind), ranges).alias("held")).orderBy("n").collect()
    return [row["held"] for row in rows]


@pytest.mark.parametrize(
    ("kind", "keys", "far"),
    [
        ("bigint", [1, 2, 3, 1000, 1001, 9_000_000_000_000_000_000], [5_000_000_000_000_000_000]),
        ("bigint", [-9_223_372_036_854_775_808, 0, 9_223_372_036_854_775_807], [4_000_000_000_000_000_000]),
        ("int", [7], [6, 8]),
        ("decimal(20,2)", ["0.01", "0.02", "99999.99"], ["50000.00"]),
        ("date", ["2020-01-01", "2020-01-02", "2026-11-26"], ["2023-05-05"]),
        ("timestamp", ["2020-01-01 00:00:00.000001", "2026-11-26 05:00:00"], ["2023-05-05 00:00:00"]),
    ],
)
def test_keys_far_apart(spark: SparkSession, kind: str, keys: list[Any], far: list[Any]) -> None:
    net = net_of(spark, keys, kind)
    assert all(held(spark, net, keys, kind))
    assert not any(held(spark, net, far, kind))


def test_of_many_keys_only_the_widest_gaps_are_left_out(spark: SparkSession) -> None:
    chance = random.Random(1)
    clumps = [base * 1_000_000 + chance.randrange(5_000) for base in range(40) for _ in range(50)]
    net = net_of(spark, clumps, "bigint")
    assert all(held(spark, net, clumps, "bigint"))
    assert not any(held(spark, net, [base * 1_000_000 + 500_000 for base in range(40)], "bigint"))
    anywhere = [chance.randrange(1 << 62) for _ in range(5_000)]
    assert all(held(spark, net_of(spark, anywhere, "bigint"), anywhere, "bigint"))


def test_strings_have_one_range(spark: SparkSession) -> None:
    net = net_of(spark, ["a", "m", "z"], "string")
    assert key_ranges(net, "id") == [("'a'", "'z'")]
