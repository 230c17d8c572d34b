"""How the time to apply the log grows with its epochs: 64 deletes by deletion vectors, compared with 16."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import SparkSession

from bench import contenders as c
from bench.ratio import Contender, Race, Timed
from bench.tables import Tables

FEW, MANY = 16, 64


def growth(spark: SparkSession, tables: Tables, sealed: Callable[[str, str], None], change: str, rounds: int) -> Race:
    """``sealed`` makes a build of a source (first) at a location (second) that is sealed at version 0."""

    def ours(epochs: int) -> Contender:
        source, base = tables.history(epochs, change), tables.fresh(f"sealed-{epochs}")
        sealed(source, base)

        def prepare(number: int) -> Timed:
            target = tables.copied(base, f"grown-{epochs}-{number}")
            return lambda: c.consume(spark, target)

        return prepare

    title = f"log of {change} epochs"
    return Race(title, {f"{epochs} epochs": ours(epochs) for epochs in (FEW, MANY)}).run(rounds, 2)
