"""The proof alone, compared with a bare copy of the same rows."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from airflow_backfill.core.attempts.goals import CatchUpGoal, ConsumeLogGoal, SnapshotGoal, VerifyGoal
from airflow_backfill.core.gates.max_lag import MaxLag
from airflow_backfill.core.values.proof_kind import ProofKind
from bench import contenders as c
from bench.ratio import Contender, Race, Timed
from bench.tables import Tables

NONE = MaxLag(epochs=0)
WARM_UP_ROUNDS = 2


def verification(
    spark: SparkSession, tables: Tables, source: str, key: Sequence[str], select: Sequence[str], rounds: int
) -> Race:
    """Both kinds of proof of a build of ``source`` that has arrived at its hand-off epoch."""
    rows = spark.read.format("delta").load(source).count()

    def arrived(kind: ProofKind) -> str:
        """A copy of the build. It is proven where it was planned, so each run puts it back there."""
        target = tables.fresh(f"proof-{kind.value}")
        c.planned(spark, source, target, key, select, proof=kind)
        application = c.Application(spark, target)
        for goal in (SnapshotGoal(0, 1, c.WHOLE), ConsumeLogGoal(c.WHOLE, NONE, 9), CatchUpGoal(c.WHOLE, NONE, 9)):
            application.reach(goal)
        return tables.copied(target, f"arrived-{kind.value}")

    def ours(kind: ProofKind) -> Contender:
        base = arrived(kind)

        def prepare(number: int) -> Timed:
            target = tables.copied(base, f"proof-{kind.value}")
            return lambda: c.Application(spark, target).reach(VerifyGoal())

        return prepare

    contenders = {f"{kind.value} proof": ours(kind) for kind in ProofKind}
    contenders["bare copy"] = c.copying(spark, tables, source, 1, select)
    return Race(f"proof of {rows:,} rows", contenders).run(rounds)


def surcharge(
    spark: SparkSession, tables: Tables, source: str, key: Sequence[str], select: Sequence[str], rounds: int
) -> Race:
    """The copy of a build that is proven incrementally, which adds up digests, and of one that is not."""
    rows = spark.read.format("delta").load(source).count()

    def copy(kind: ProofKind) -> Contender:
        def prepare(number: int) -> Timed:
            target = tables.fresh(f"copied-{kind.value}-{number}")
            c.planned(spark, source, target, key, select, proof=kind)
            return lambda: c.snapshot(spark, target, c.WHOLE)

        return prepare

    contenders = {"with digests": copy(ProofKind.INCREMENTAL), "without": copy(ProofKind.FULL)}
    return Race(f"copy of {rows:,} rows", contenders).run(rounds, WARM_UP_ROUNDS)
