"""Runs the benchmarks, prints the tables of ratios, and writes them to bench/RESULTS.md.

``SNAPSHOT_SCALE`` and ``ROUNDS`` make them smaller. With names of measures as arguments, only those run, and the
results of the others stay.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from delta.tables import DeltaTable
from pyspark.sql import SparkSession

from airflow_backfill.core.attempts.goals import SnapshotGoal
from airflow_backfill.core.values.proof_kind import ProofKind
from airflow_backfill.core.values.round_size import RoundSize
from bench import contenders as c
from bench import lag
from bench.appends import FILES, appends
from bench.backlog import Backlog
from bench.barriers import barriers
from bench.follower import OPTIONS, java_options
from bench.growth import growth
from bench.planning import planning
from bench.ratio import Contender, Race, Timed
from bench.rehearsal import rehearsed
from bench.results import Results
from bench.service import followers
from bench.session import hidden_after, session
from bench.size import growing_snapshots, same_changes
from bench.start import seconds_to_start
from bench.tables import Tables
from bench.through_airflow import through_airflow
from bench.topics import histories
from bench.verification import surcharge, verification
from bench.wide import COLUMNS, wide

HERE = Path(__file__).parent
LINEITEM = [
    "l_orderkey",
    "l_linenumber",
    "l_partkey",
    "l_quantity",
    "l_extendedprice * (1 - l_discount) AS revenue",
]
LINEITEM += ["l_shipdate", "l_comment"]
LINEITEM_KEY = ["l_orderkey", "l_linenumber"]
ORDERS = ["o_orderkey", "o_custkey", "o_orderstatus", "o_totalprice * 2 AS double_price", "o_comment"]
ORDERS_KEY = ["o_orderkey"]
ALL_ORDERS = ["o_orderkey", "o_custkey", "o_orderstatus", "o_totalprice", "o_orderdate", "o_orderpriority"]
ALL_ORDERS += ["o_clerk", "o_shippriority", "o_comment"]
STRATEGIES = ("snapshot", "arrangement", "chain")
EPOCHS = 64
RECORDS = 8_000_000
HEAD = ["| what | compared with | ours, s | theirs, s | ratio | goal |", "|---|---|---|---|---|---|"]


def snapshots(spark: SparkSession, tables: Tables, scale: float, parts: int, rounds: int) -> Race:
    """A snapshot in ``parts`` rounds, compared with a bare copy of the same projection."""
    source = tables.source("lineitem", scale)
    rows = spark.read.format("delta").load(source).count()

    def ours(number: int) -> object:
        target = tables.fresh(f"snapshot-{number}")
        plan = c.planned(spark, source, target, LINEITEM_KEY, LINEITEM).plan
        size = RoundSize(-(-plan.splits.bytes // parts), 1 << 40)
        return lambda: c.snapshot(spark, target, size)

    bare = c.copying(spark, tables, source, 1, LINEITEM)
    title = f"snapshot of {rows:,} rows in {parts} rounds"
    return Race(title, {"table backfill": ours, "bare copy": bare}).run(rounds)


def strategies(spark: SparkSession, tables: Tables, parts: int, rounds: int) -> Race:
    """Whole builds of one table by each strategy, from plan to hand-off, compared with a bare copy."""
    source = tables.source("lineitem", 1.0)
    files = DeltaTable.forPath(spark, source).detail().first()
    size = RoundSize(-(-files["sizeInBytes"] // parts), 1 << 40)

    def build(strategy: str) -> Contender:
        def prepare(number: int) -> Timed:
            target = tables.fresh(f"{strategy}-{number}")
            return lambda: c.whole(spark, source, target, LINEITEM_KEY, LINEITEM, strategy, size)

        return prepare

    bare = c.copying(spark, tables, source, 1, LINEITEM)
    contenders = {name: build(name) for name in STRATEGIES}
    return Race("whole build with proof", {**contenders, "bare copy": bare}).run(rounds)


def small_changes(spark: SparkSession, tables: Tables, rounds: int) -> Race:
    """64 epochs of 100 orders each."""
    source, first = tables.changed_copy("orders", 1.0, EPOCHS, 100), 2
    backlog = Backlog(f"{EPOCHS} pending epochs", source, first, first + EPOCHS - 1, ORDERS_KEY, ORDERS)
    return backlog.race(spark, tables, rounds, each=True)


def large_changes(spark: SparkSession, tables: Tables, change: str, rounds: int) -> Race:
    """32 epochs of 2,500 orders each."""
    backlog = Backlog(f"32 pending epochs by {change}", tables.history(32, change), 1, 32, ORDERS_KEY, ALL_ORDERS)
    return backlog.race(spark, tables, rounds)


def proven(spark: SparkSession, tables: Tables, change: str, rounds: int) -> Race:
    """A whole build with its proof while 32 epochs arrive, compared with a stream from the same version."""
    source = tables.history(32, change)

    def ours(proof: ProofKind) -> Contender:
        def prepare(number: int) -> Timed:
            target = tables.fresh(f"proven-{proof.value}-{number}")

            def build() -> None:
                with hidden_after(spark, source, 0):
                    c.planned(spark, source, target, ORDERS_KEY, ALL_ORDERS, proof=proof)
                    application = c.Application(spark, target)
                    application.reach(SnapshotGoal(0, 1, c.WHOLE))
                application.hand_off()

            return build

        return prepare

    def stream(number: int) -> Timed:
        target, checkpoint = tables.fresh(f"stream-{number}"), tables.fresh(f"checkpoint-{number}")
        columns = spark.read.format("delta").load(source).selectExpr(*ALL_ORDERS)

        def follow() -> None:
            columns.limit(0).write.format("delta").option("delta.enableDeletionVectors", "true").save(target)
            c.stream(spark, source, 0, target, checkpoint, ORDERS_KEY, ALL_ORDERS)

        return follow

    bare = c.copying(spark, tables, source, 0, ALL_ORDERS)
    contenders = {f"{kind.value} proof": ours(kind) for kind in ProofKind}
    contenders |= {"feed stream": stream, "bare copy": bare}
    return Race(f"whole build with proof, 32 epochs by {change}", contenders).run(rounds)


def proven_rows(spark: SparkSession, tables: Tables, rounds: int) -> list[str]:
    rows = list(HEAD)
    for change, goal in (("merge", "at most 1.15"), ("delete", "at most 0.3")):
        race = proven(spark, tables, change, rounds)
        rows += [race.row("full proof", "feed stream", goal, named=True)]
        rows += [race.row("incremental proof", "feed stream", "at most 1", named=True)]
        rows += [race.row("full proof", "bare copy", "none", named=True)]
    return rows


def served(spark: SparkSession, tables: Tables, rounds: int) -> list[str]:
    """Followers of small tables, each with a few pending epochs."""
    race = followers(tables, _followed(spark, tables), rounds)
    together, alone = race.contenders
    return [*HEAD, race.row(together, alone, "at most 3")]


def with_java_options(spark: SparkSession, tables: Tables, rounds: int) -> list[str]:
    race = java_options(tables, _followed(spark, tables), rounds)
    own, *others = OPTIONS
    return [*HEAD, *(race.row(name, own, "none", named=True) for name in others)]


def _followed(spark: SparkSession, tables: Tables) -> str:
    """A finished build of a small table whose source has a few pending epochs."""
    source, base = tables.changed_copy("orders", 0.01, 4, 100), tables.fresh("finished")
    with hidden_after(spark, source, 1):
        c.whole(spark, source, base, ORDERS_KEY, ORDERS, "snapshot", c.WHOLE)
    return base


def _sealed(spark: SparkSession, source: str, target: str) -> None:
    c.sealed(spark, source, target, 0, ORDERS_KEY, ORDERS)


@dataclass(frozen=True)
class Measures:
    """The measures by name, each as the lines of its table."""

    spark: SparkSession
    tables: Tables
    rounds: int
    scale: float

    def by_name(self) -> dict[str, Callable[[], list[str]]]:
        return {
            "plan": self.plan,
            "surcharge": self.surcharge,
            "snapshot": self.large_snapshot,
            "small snapshot": self.small_snapshot,
            "log": self.log,
            "larger epochs": self.larger_epochs,
            "growth": self.growth,
            "larger table": self.larger_table,
            "columns": self.columns,
            "size": lambda: growing_snapshots(self.spark, self.tables, LINEITEM, LINEITEM_KEY, self.rounds),
            "appends": self.appends,
            "barriers": self.barriers,
            "strategies": self.strategies,
            "proof": self.proof,
            "proven": lambda: proven_rows(self.spark, self.tables, self.rounds),
            "topic": self.topic,
            "announcements": lambda: [*lag.HEAD, lag.announced(self.spark, self.tables, self.scale, 4).row],
            "service": lambda: served(self.spark, self.tables, self.rounds),
            "start": lambda: [starting(self.rounds)],
            "airflow": lambda: through_airflow(self.tables.folder, self.rounds),
            "java": lambda: with_java_options(self.spark, self.tables, self.rounds),
            "rehearsal": lambda: rehearsed(self.tables.folder, 1.0, ORDERS_KEY, ALL_ORDERS, self.rounds),
        }

    def large_snapshot(self) -> list[str]:
        race = snapshots(self.spark, self.tables, self.scale, 4, self.rounds)
        return [*HEAD, race.row("table backfill", "bare copy", "at most 1.15")]

    def small_snapshot(self) -> list[str]:
        race = snapshots(self.spark, self.tables, 0.2, 4, self.rounds)
        return [*HEAD, race.row("table backfill", "bare copy", "none: shows the cost of a round")]

    def log(self) -> list[str]:
        # Short runs vary most, and are cheap to repeat.
        race = small_changes(self.spark, self.tables, 3 * self.rounds)
        return [
            *HEAD,
            race.row("table backfill", "one net MERGE", "at most 1"),
            race.row("table backfill", "feed stream", "at most 0.7"),
            race.row("table backfill", "MERGE per version", "at most 0.1"),
        ]

    def larger_epochs(self) -> list[str]:
        merges = large_changes(self.spark, self.tables, "merge", 3 * self.rounds)
        deletes = large_changes(self.spark, self.tables, "delete", self.rounds)
        return [
            *HEAD,
            merges.row("table backfill", "one net MERGE", "at most 1"),
            merges.row("table backfill", "feed stream", "at most 0.95"),
            deletes.row("table backfill", "one net MERGE", "at most 1"),
            deletes.row("table backfill", "feed stream", "at most 0.1"),
        ]

    def growth(self) -> list[str]:
        race = growth(self.spark, self.tables, partial(_sealed, self.spark), "delete", self.rounds)
        few, many = race.contenders
        return [*HEAD, race.row(many, few, "at most 1.2")]

    def larger_table(self) -> list[str]:
        found = list(HEAD)
        for place, goal in (("together", "at most 1.2"), ("scattered", "at most 2")):
            race = same_changes(self.spark, self.tables, partial(_sealed, self.spark), place, self.rounds)
            small, large = race.contenders
            found.append(race.row(large, small, goal, named=True))
        return found

    def columns(self) -> list[str]:
        races = [wide(self.spark, self.tables, columns, self.rounds) for columns in COLUMNS]
        others = ("one net MERGE", "feed stream")
        return [*HEAD, *(race.row("table backfill", other, "none", named=True) for race in races for other in others)]

    def appends(self) -> list[str]:
        races = [appends(self.spark, self.tables, files, self.rounds) for files in FILES]
        return [*HEAD, *(race.row(*race.contenders, "at most 1") for race in races)]

    def barriers(self) -> list[str]:
        race = barriers(self.spark, self.tables, self.tables.source("orders", 0.01), self.rounds)
        return [*HEAD, race.row("table backfill", "appends of one row", "at most 1")]

    def strategies(self) -> list[str]:
        race = strategies(self.spark, self.tables, 4, self.rounds)
        goal = "none: plan, 4 rounds, proof"
        return [*HEAD, *(race.row(name, "bare copy", goal, named=True) for name in STRATEGIES)]

    def plan(self) -> list[str]:
        races = [planning(self.spark, self.tables, *each, self.rounds) for each in self._sources()]
        return [*HEAD, *(race.row("plan", "bare copy", "at most 0.4") for race in races)]

    def _sources(self) -> list[tuple[str, list[str], list[str]]]:
        """A source of 1.5 million rows and a large one: where it is, its key, what is read of it."""
        orders, lineitem = self.tables.source("orders", 1.0), self.tables.source("lineitem", self.scale)
        return [(orders, ORDERS_KEY, ALL_ORDERS), (lineitem, LINEITEM_KEY, LINEITEM)]

    def proof(self) -> list[str]:
        found = list(HEAD)
        for source, key, columns in self._sources():
            race = verification(self.spark, self.tables, source, key, columns, self.rounds)
            found += [race.row("full proof", "bare copy", "at most 0.9", named=True)]
            found += [race.row("incremental proof", "bare copy", "at most 0.4", named=True)]
            found += [race.row("sampled proof", "full proof", "at most 1", named=True)]
        return found

    def surcharge(self) -> list[str]:
        races = [surcharge(self.spark, self.tables, *each, self.rounds) for each in self._sources()]
        return [*HEAD, *(race.row("with digests", "without", "at most 1.05", named=True) for race in races)]

    def topic(self) -> list[str]:
        race = histories(self.spark, self.tables, RECORDS, 4, self.rounds)
        return [*HEAD, race.row("table backfill", "plain batch read", "at most 1.15")]


def main() -> None:
    rounds = int(os.environ.get("ROUNDS", "3"))
    scale = float(os.environ.get("SNAPSHOT_SCALE", "5"))
    spark = session()
    tables = Tables(spark, Path(os.environ.get("BENCH_DIR", str(HERE.parent / ".bench"))))
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Spark {spark.version}, medians of interleaved runs"
    results, measures = Results(HERE / "RESULTS.md", machine), Measures(spark, tables, rounds, scale).by_name()
    for name in sys.argv[1:] or measures:
        results.keep(name, measures[name]())
    print(results.text)


def starting(rounds: int) -> str:
    slow, soon = (seconds_to_start(rounds, quickly=quickly) for quickly in (False, True))
    return (
        f"The cost of starting Spark: an application without work takes {slow:.1f} s, with `environment/quick.py` "
        f"{soon:.1f} s. docs/performance.md says how often a build starts Spark."
    )


if __name__ == "__main__":
    main()
