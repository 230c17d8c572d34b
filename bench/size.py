"""What grows with the size of the table: a round of the log with the same changes, a snapshot, the driver's memory."""

from __future__ import annotations

import resource
from collections.abc import Callable

from pyspark.sql import SparkSession

from bench import contenders as c
from bench.ratio import Contender, Race, Timed
from bench.tables import Tables

EPOCHS, CHANGES = 8, 2_500
SMALL, LARGE = 1.0, 10.0
PLACES = {
    "together": "o_orderkey BETWEEN {epoch} * 10000 AND {epoch} * 10000 + 9999",
    "scattered": "o_orderkey % {modulus} = {epoch}",
}
"""Which orders an epoch changes: about ``CHANGES`` of them."""
MILLIONS = (4, 16, 64)
ROWS_OF_SCALE = 6.0
"""Million line items of TPC-H at scale 1."""


def same_changes(
    spark: SparkSession, tables: Tables, sealed: Callable[[str, str], None], place: str, rounds: int
) -> Race:
    """The log of the same changes in a table of 1.5 and one of 15 million rows. ``sealed``: as for ``growth``."""

    def ours(scale: float) -> Contender:
        source, base = _changed(spark, tables, scale, place), tables.fresh(f"sealed-{place}-{scale}")
        sealed(source, base)

        def prepare(number: int) -> Timed:
            target = tables.copied(base, f"changed-{place}-{scale}-{number}")
            return lambda: c.consume(spark, target)

        return prepare

    contenders = {f"{1.5 * scale:g} million rows": ours(scale) for scale in (SMALL, LARGE)}
    return Race(f"{EPOCHS} epochs of {CHANGES:,} changes, keys {place}", contenders).run(rounds, 2)


def _changed(spark: SparkSession, tables: Tables, scale: float, place: str) -> str:
    def change(table: str, epoch: int) -> None:
        where = PLACES[place].format(epoch=epoch, modulus=round(1_500_000 * scale / CHANGES))
        spark.sql(f"UPDATE {table} SET o_totalprice = o_totalprice + 1 WHERE {where}")

    return tables.changed(f"{place}-{scale}", scale, EPOCHS, change)


def growing_snapshots(spark: SparkSession, tables: Tables, select: list[str], key: list[str], rounds: int) -> list[str]:
    """Lines: the seconds of each further million rows, and the memory that stays in use."""
    heap: dict[str, float] = {}

    def ours(millions: int) -> Contender:
        source = tables.source("lineitem", round(millions / ROWS_OF_SCALE, 3))

        def prepare(number: int) -> Timed:
            target = tables.fresh(f"size-{millions}-{number}")
            c.planned(spark, source, target, key, select)

            def build() -> None:
                c.snapshot(spark, target, c.WHOLE)
                heap[f"{millions} million rows"] = _live_heap(spark)

            return build

        return prepare

    race = Race("snapshot", {f"{millions} million rows": ours(millions) for millions in MILLIONS}).run(rounds)
    lines = ["| rows | seconds | seconds per further million | Java heap in use, MB | Python's peak, MB |"]
    lines.append("|---|---|---|---|---|")
    before = None
    for millions, name in zip(MILLIONS, race.contenders, strict=True):
        seconds = race.median(name)
        further = "" if before is None else f"{(seconds - before[1]) / (millions - before[0]):.3f}"
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        lines.append(f"| {millions} million | {seconds:.1f} | {further} | {heap[name]:.0f} | {peak:.0f} |")
        before = millions, seconds
    return lines


def _live_heap(spark: SparkSession) -> float:
    """Megabytes of Java's heap that a collection leaves."""
    runtime = spark._jvm.java.lang.Runtime.getRuntime()
    spark._jvm.System.gc()
    return float(runtime.totalMemory() - runtime.freeMemory()) / (1 << 20)
