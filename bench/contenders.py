"""The contenders: the product's own tasks in one session, and what a competent user would write instead."""

from __future__ import annotations

import time
from collections.abc import Sequence

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from airflow_backfill.core.attempts.goals import CatchUpGoal, ConsumeLogGoal, FinishGoal, Goal, SnapshotGoal, VerifyGoal
from airflow_backfill.core.gates.max_lag import MaxLag
from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.proof_kind import ProofKind
from airflow_backfill.core.values.round_size import RoundSize
from airflow_backfill.ledger.control_folder import ControlFolder
from airflow_backfill.spark.run.application import reach
from airflow_backfill.spark.run.interpreter import Shell
from airflow_backfill.spark.run.planner import OnExisting, Planner
from bench.ratio import Contender, Timed
from bench.session import hidden_after
from bench.tables import Tables

WHOLE = RoundSize(1 << 50, 1 << 40)


def attempt(target: str) -> Attempt:
    return ControlFolder.beside(target).draw_attempt({"task": "bench"}, floor=0)


def planned(
    spark: SparkSession,
    source: str,
    target: str,
    key: Sequence[str],
    select: Sequence[str],
    strategy: str = "snapshot",
    proof: ProofKind = ProofKind.FULL,
) -> BuildState:
    """Commit the plan of a build."""
    options = {"name": "bench", "source": source, "target": target, "key": list(key), "select": list(select)}
    spec = BackfillSpec.parse({**options, "strategy": strategy, "proof": proof.value})
    state, _ = Planner(spark, spec, 1, attempt(target)).plan(OnExisting.RESUME)
    return state


def whole(
    spark: SparkSession,
    source: str,
    target: str,
    key: Sequence[str],
    select: Sequence[str],
    strategy: str,
    size: RoundSize,
) -> None:
    """Run a build from its plan to its hand-off, with the proof."""
    planned(spark, source, target, key, select, strategy)
    application = Application(spark, target)
    application.reach(SnapshotGoal(0, 1, size))
    application.hand_off()


class Application:
    """Works on one goal after the other, as an application of the product does."""

    def __init__(self, spark: SparkSession, target: str) -> None:
        self._shell, self._me = Shell(spark, target), attempt(target)

    def reach(self, goal: Goal) -> BuildState:
        begun = time.perf_counter()
        state = reach(goal, self._shell, self._me, None)
        print(f"    {type(goal).__name__} {time.perf_counter() - begun:.2f} s", flush=True)
        return state

    def hand_off(self) -> None:
        """From the read snapshot to the hand-off, with the proof."""
        none = MaxLag(epochs=0)
        for goal in (ConsumeLogGoal(WHOLE, none, 10), CatchUpGoal(WHOLE, none, 10), VerifyGoal(), FinishGoal()):
            self.reach(goal)


def sealed(
    spark: SparkSession, source: str, target: str, epoch: int, key: Sequence[str], select: Sequence[str]
) -> None:
    """Make a build with a sealed snapshot at ``epoch`` of the source."""
    with hidden_after(spark, source, epoch):
        planned(spark, source, target, key, select)
        snapshot(spark, target, WHOLE)
        consume(spark, target)


def snapshot(spark: SparkSession, target: str, size: RoundSize) -> BuildState:
    return Application(spark, target).reach(SnapshotGoal(0, 1, size))


def consume(spark: SparkSession, target: str) -> BuildState:
    return Application(spark, target).reach(ConsumeLogGoal(WHOLE, MaxLag(epochs=0), 10))


def bare_copy(spark: SparkSession, source: str, epoch: int, target: str, select: Sequence[str]) -> None:
    """Copy the projection of one version with plain Spark."""
    rows = spark.read.format("delta").option("versionAsOf", epoch).load(source)
    rows.selectExpr(*select).write.format("delta").save(target)


def copying(spark: SparkSession, tables: Tables, source: str, epoch: int, select: Sequence[str]) -> Contender:
    """``bare_copy`` in a race."""

    def prepare(number: int) -> Timed:
        target = tables.fresh(f"copy-{number}")
        return lambda: bare_copy(spark, source, epoch, target, select)

    return prepare


def latest(changes: DataFrame, key: Sequence[str]) -> DataFrame:
    """The last change per key, as users write it."""
    kept = changes.where("_change_type <> 'update_preimage'")
    newest = Window.partitionBy(*key).orderBy(
        F.col("_commit_version").desc(), (F.col("_change_type") == "delete").asc()
    )
    return kept.withColumn("_n", F.row_number().over(newest)).where("_n = 1").drop("_n")


def merge(spark: SparkSession, changes: DataFrame, target: str, key: Sequence[str], select: Sequence[str]) -> None:
    """One MERGE of the latest changes."""
    rows = changes.selectExpr(*select, "_change_type")
    columns = {c: f"s.{c}" for c in rows.columns if c != "_change_type"}
    (
        DeltaTable.forPath(spark, target)
        .alias("t")
        .merge(rows.alias("s"), " AND ".join(f"t.{k} = s.{k}" for k in key))
        .whenMatchedDelete("s._change_type = 'delete'")
        .whenMatchedUpdate(set=columns)
        .whenNotMatchedInsert("s._change_type <> 'delete'", columns)
        .execute()
    )


def feed(spark: SparkSession, source: str, first: int, last: int) -> DataFrame:
    reader = spark.read.format("delta").option("readChangeFeed", "true")
    return reader.option("startingVersion", first).option("endingVersion", last).load(source)


def stream(
    spark: SparkSession,
    source: str,
    first: int,
    target: str,
    checkpoint: str,
    key: Sequence[str],
    select: Sequence[str],
) -> None:
    """A change-feed stream as a careful user writes it: latest change per key, one MERGE per micro-batch."""
    changes = spark.readStream.format("delta").option("readChangeFeed", "true").option("startingVersion", first)
    query = (
        changes.load(source)
        .writeStream.foreachBatch(lambda batch, _: merge(spark, latest(batch, key), target, key, select))
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def merge_each(
    spark: SparkSession,
    source: str,
    first: int,
    last: int,
    target: str,
    key: Sequence[str],
    select: Sequence[str],
) -> None:
    """One MERGE per version."""
    for version in range(first, last + 1):
        merge(spark, latest(feed(spark, source, version, version), key), target, key, select)
