"""The plan alone, compared with a bare copy of the same rows."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from bench import contenders as c
from bench.ratio import Race, Timed
from bench.tables import Tables

WARM_UP_ROUNDS = 3


def planning(
    spark: SparkSession, tables: Tables, source: str, key: Sequence[str], select: Sequence[str], rounds: int
) -> Race:
    rows = spark.read.format("delta").load(source).count()

    def ours(number: int) -> Timed:
        target = tables.fresh(f"plan-{number}")
        return lambda: c.planned(spark, source, target, key, select)

    contenders = {"plan": ours, "bare copy": c.copying(spark, tables, source, 1, select)}
    return Race(f"plan of {rows:,} rows", contenders).run(rounds, WARM_UP_ROUNDS)
