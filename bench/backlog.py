"""The time to apply pending epochs after a sealed snapshot, compared with what one would do instead."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from bench import contenders as c
from bench.ratio import Race, Timed
from bench.tables import Tables

WARM_UP_ROUNDS = 5
"""Rounds that do not count for work of seconds: until then it still gets faster."""


@dataclass(frozen=True)
class Backlog:
    """The pending epochs ``first`` to ``last`` of a source, whose projection has this key."""

    title: str
    source: str
    first: int
    last: int
    key: Sequence[str]
    select: Sequence[str]

    def race(
        self,
        spark: SparkSession,
        tables: Tables,
        rounds: int,
        *,
        each: bool = False,
        warm_up_rounds: int = WARM_UP_ROUNDS,
    ) -> Race:
        """Compare the log with one net MERGE and a stream, and with ``each``, once, with a MERGE per version."""
        base, plain, net = (tables.fresh(name) for name in ("base", "plain", "net"))
        c.sealed(spark, self.source, base, self.first - 1, self.key, self.select)
        c.bare_copy(spark, self.source, self.first - 1, plain, self.select)
        changes = c.feed(spark, self.source, self.first, self.last)
        c.latest(changes, self.key).write.format("delta").save(net)

        def ours(number: int) -> Timed:
            target = tables.copied(base, f"ours-{number}")
            return lambda: c.consume(spark, target)

        def one_merge(number: int) -> Timed:
            target, rows = tables.copied(plain, f"one-{number}"), spark.read.format("delta").load(net)
            return lambda: c.merge(spark, rows, target, self.key, self.select)

        def stream(number: int) -> Timed:
            target, checkpoint = tables.copied(plain, f"stream-{number}"), tables.fresh(f"checkpoint-{number}")
            return lambda: c.stream(spark, self.source, self.first, target, checkpoint, self.key, self.select)

        def merge_each(number: int) -> Timed:
            target = tables.copied(plain, f"each-{number}")
            return lambda: c.merge_each(spark, self.source, self.first, self.last, target, self.key, self.select)

        contenders: dict[str, Callable[[int], Timed]] = {
            "table backfill": ours,
            "one net MERGE": one_merge,
            "feed stream": stream,
        }
        if each:
            contenders["MERGE per version"] = merge_each
        return Race(self.title, contenders, frozenset({"MERGE per version"})).run(rounds, warm_up_rounds)
