"""A build run task by task in the tests' own session: the real shell, tables and log, without a process per task."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from airflow_backfill.core.attempts.attempt import Protocol
from airflow_backfill.core.attempts.goals import (
    CatchUpGoal,
    ConsumeLogGoal,
    FinishGoal,
    Goal,
    RepairGoal,
    SnapshotGoal,
    UpstreamGoal,
    VerifyGoal,
)
from airflow_backfill.core.attempts.recovery import recover
from airflow_backfill.core.errors import BackfillError, VerificationFailed
from airflow_backfill.core.gates.max_lag import MaxLag
from airflow_backfill.core.model.record import Record, barrier_record
from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.core.state import effect as fx
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.state.step import Done
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.control import Command
from airflow_backfill.core.values.phase import Event
from airflow_backfill.core.values.round_size import RoundSize
from airflow_backfill.ledger.open_source import watch_source
from airflow_backfill.ledger.reader import BuildReader
from airflow_backfill.spark.run.application import reach
from airflow_backfill.spark.run.interpreter import Shell
from airflow_backfill.spark.run.planner import OnExisting, Planner
from demo.reading import by_delta_rs
from tests.spark.history import Source

ANY = MaxLag(epochs=1_000_000)
NONE = MaxLag(epochs=0)
PATIENCE = 10


class Build:
    """One build of one target; each task is an attempt newer than all before."""

    def __init__(self, source: Source, target: Path | str, lanes: int = 1, **spec: Any) -> None:
        self.source, self.spark, self.target, self.lanes = source, source.spark, str(target), lanes
        given: Mapping[str, Any] = {
            "name": "build",
            "source": source.path,
            "target": self.target,
            "key": [source.key],
            **spec,
        }
        self.spec = BackfillSpec.parse(given)
        self.size = RoundSize()
        self.report: dict[str, Any] = {}
        self._generation = 0

    @property
    def reader(self) -> BuildReader:
        return BuildReader(self.target)

    def attempt(self) -> Attempt:
        self._generation += 1
        return Attempt(self._generation, f"attempt-{self._generation}")

    def plan(self, on_existing: OnExisting = OnExisting.RESUME) -> BuildState:
        planner = Planner(self.spark, self.spec, self.lanes, self.attempt(), self.size)
        state, self.report = planner.plan(on_existing)
        return state

    def run(self, task: Goal, me: Attempt | None = None) -> BuildState:
        return reach(task, Shell(self.spark, self.target), me or self.attempt(), None)

    def first_rounds(self, count: int) -> None:
        """A snapshot that ends after so many rounds of the build."""
        self.run(_FirstRounds(0, 1, self.size, self, count))

    def recover(self, epoch: int | None = None) -> BuildState:
        """After the word of somebody that the target stands at the epoch, or after a RESTORE of the target."""
        return Shell(self.spark, self.target).run(recover(self.attempt(), epoch))

    def led_back(self, error: BackfillError) -> BuildState:
        """After what the error says: a RESTORE of the target, and a recovery."""
        named = re.search(r"run (RESTORE TABLE .+), then `table-backfill recover .+ --why REASON`", error.message)
        assert named is not None
        self.spark.sql(named[1])
        return self.recover()

    def repair(self, epoch: int) -> BuildState:
        """As ``recover``, where rows differ from the epoch: they are rewritten, proven and handed over."""
        self.recover(epoch)
        with pytest.raises(VerificationFailed):
            self.verify()
        self.run(RepairGoal())
        self.verify()
        return self.finish()

    def snapshot(self) -> BuildState:
        state = None
        for lane in range(self.lanes):
            state = self.run(SnapshotGoal(lane, self.lanes, self.size))
        assert state is not None
        return state

    def consume_log(self, lag: MaxLag = NONE) -> BuildState:
        return self.run(ConsumeLogGoal(self.size, lag, PATIENCE))

    def catch_up(self, lag: MaxLag = NONE) -> BuildState:
        return self.run(CatchUpGoal(self.size, lag, PATIENCE))

    def verify(self) -> BuildState:
        return self.run(VerifyGoal())

    def finish(self) -> BuildState:
        return self.run(FinishGoal())

    def read(self) -> BuildState:
        """The plan and the snapshot."""
        self.plan()
        return self.snapshot()

    def apply_log(self) -> BuildState:
        """What comes after the snapshot, up to the hand-off epoch."""
        self.consume_log()
        return self.catch_up()

    def prove(self) -> BuildState:
        """What comes after the snapshot, up to the proof."""
        self.apply_log()
        return self.verify()

    def complete(self) -> BuildState:
        """What comes after the snapshot, up to the hand-off."""
        self.prove()
        return self.finish()

    def hand_off(self) -> BuildState:
        """Everything from the plan to the finish."""
        self.read()
        return self.complete()

    def upstream(self) -> BuildState:
        state = self.reader.state()
        head = watch_source(state.plan).view(state.reached).head
        return self.run(UpstreamGoal(self.size, upto=head))

    def order(self, command: Command) -> int:
        return self.reader.control.order(self.reader.state().plan.build, command)

    def records(self) -> list[Record]:
        """What the barriers say, in order."""
        log = self.reader.log
        found = (barrier_record(log.read(version)) for version in range(log.head() + 1))
        return [record for record in found if record is not None]

    def rows(self) -> DataFrame:
        return self.spark.read.format("delta").load(self.target)

    def expected(self, epoch: int) -> DataFrame:
        """The transform over the source as of the epoch, by Spark alone."""
        rows = self.source.at(epoch).where(self.spec.where or "true")
        return rows.selectExpr(*self.spec.select) if self.spec.select else rows

    def assert_equal_at(self, epoch: int) -> None:
        """The target is what its source says at the epoch. Where nothing is transformed, Spark is not asked: it takes
        longer than the round that is checked.
        """
        if self.spec.select or self.spec.where:
            self.assert_equal_in_spark(epoch)
        else:
            sides = (Path(self.target), None), (Path(self.source.path), epoch)
            there, due = ([field.name for field in DeltaTable(*side).schema().fields] for side in sides)
            assert there == due
            _assert_same(*(list(by_delta_rs(*side)) for side in sides))

    def assert_equal_in_spark(self, epoch: int) -> None:
        """The same for tables with any types and features."""
        actual, expected = self.rows(), self.expected(epoch)
        assert actual.columns == expected.columns
        _assert_same(actual.collect(), expected.collect())


def _assert_same(rows: list[Any], expected: list[Any]) -> None:
    there, due = Counter(map(repr, rows)), Counter(map(repr, expected))
    assert due - there == Counter(), "rows that are missing"
    assert there - due == Counter(), "rows that should not be there"


@dataclass(frozen=True)
class _FirstRounds(SnapshotGoal):
    build: Build
    rounds: int

    def step(self, state: Any, seen: Any) -> Any:
        done = sum(record.event in (Event.FILES, Event.CHUNKS, Event.OFFSETS) for record in self.build.records())
        return Done() if done >= self.rounds else super().step(state, seen)


def about_to(work: Protocol, shell: Shell, wanted: Callable[[fx.CommitRecord], bool]) -> fx.CommitRecord:
    """Go on with an attempt until it is about to write what is wanted."""
    effect = next(work)
    while not (isinstance(effect, fx.CommitRecord) and wanted(effect)):
        effect = work.send(shell.answer(effect))
    return effect


def no_rows(spark: SparkSession, path: str, columns: tuple[str, str, str, str]) -> Source:
    """A table that was created and never written to."""
    source = Source(spark, path, columns)
    fields = ", ".join(f"{name} {kind}" for name, kind in zip(columns, ("BIGINT", "INT", "STRING", "INT"), strict=True))
    feed = "TBLPROPERTIES (delta.enableChangeDataFeed = true)"
    spark.sql(f"CREATE TABLE delta.`{path}` ({fields}) USING delta {feed}")
    return source
