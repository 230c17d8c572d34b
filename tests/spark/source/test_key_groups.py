from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_backfill.spark.source.key_groups import KeyGroups

SHAPES: dict[str, tuple[str, Callable[[random.Random], tuple[Any, ...]]]] = {
    "dense": ("a long", lambda r: (r.randrange(-300, 300),)),
    "sparse": ("a long", lambda r: (r.randrange(-(2**63), 2**63),)),
    "borders": ("a long", lambda r: (r.choice([-(2**63), -65, -64, -1, 0, 63, 64, 2**63 - 1]),)),
    "text": ("count string", lambda r: (str(r.randrange(400)),)),
    "text and number": ("a string, b int", lambda r: (str(r.randrange(9)), r.randrange(-70, 70))),
    "number and text": ("a int, b string", lambda r: (r.randrange(-70, 70), str(r.randrange(9)))),
    "two numbers": ("a long, b int", lambda r: (r.randrange(-20, 20), r.randrange(-20, 20))),
    "far numbers": ("a long, b long", lambda r: (r.choice([-(2**63), -9, 7, 8, 2**63 - 1]), r.randrange(-70, 70))),
    "numbers": ("a int, b short, c long", lambda r: (r.randrange(4), r.randrange(4), r.randrange(100))),
}


@pytest.mark.parametrize(("shape", "many"), [*((shape, False) for shape in SHAPES), ("text", True)])
def test_rows_are_counted_as_by_hand(spark: SparkSession, shape: str, many: bool) -> None:
    schema, draw = SHAPES[shape]
    random_ = random.Random(shape)
    some = [draw(random_) for _ in range(300)]
    missing = tuple(None if at == 0 else value for at, value in enumerate(some[0]))
    once = list(dict.fromkeys(some))
    for keys in (once, [*once, once[7], once[7], once[5]], [*some, missing, missing], []):
        groups = KeyGroups.of(spark.createDataFrame(keys, schema), spark.createDataFrame([], schema).columns, many)
        count = groups.count()
        by_hand = Counter(key for key in keys if None not in key)
        twins = [key for key, n in by_hand.items() if n > 1]
        assert (count.rows, count.nameless, count.repeated) == (len(keys), keys.count(missing), bool(twins))
        if twins:
            assert sorted(map(tuple, groups.repeated().collect())) == sorted(twins)
        if count.nameless:
            assert [tuple(row) for row in groups.nameless().collect()] == [missing] * count.nameless


def test_dense_keys_shuffle_a_word_for_sixty_four_rows(spark: SparkSession) -> None:
    keys = spark.range(0, 64 * 100, numPartitions=2).toDF("id")
    assert KeyGroups.of(keys, ("id",))._counted().count() == 100


def test_dense_pairs_shuffle_a_word_for_sixty_four_rows(spark: SparkSession) -> None:
    keys = spark.range(0, 64 * 100, numPartitions=2).selectExpr("id DIV 8 AS a", "id % 8 AS b")
    assert KeyGroups.of(keys, ("a", "b"))._counted().count() == 100
