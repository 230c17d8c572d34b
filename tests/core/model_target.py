"""A build on models of its two tables, for tests that want to say exactly what happens when.

Nothing fails here unless a test makes it fail; the simulation is where everything does. Time is ``now``: it moves
when a write takes ``write_ms``, when an attempt pauses, and when a test moves it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_backfill.core.attempts import attempt as protocol
from airflow_backfill.core.attempts import settle_plan as planning
from airflow_backfill.core.attempts.goals import (
    CatchUpGoal,
    ConsumeLogGoal,
    FinishGoal,
    Goal,
    SnapshotGoal,
    VerifyGoal,
)
from airflow_backfill.core.delta.epochs import FEED, epoch_of, lost
from airflow_backfill.core.errors import HistoryLost
from airflow_backfill.core.gates.max_lag import MaxLag
from airflow_backfill.core.model.certificate import Certificate
from airflow_backfill.core.model.plan import Plan, SourceFacts, app_id, build_id
from airflow_backfill.core.model.record import Record, barrier_record
from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.core.source.backlog import Backlog
from airflow_backfill.core.source.view import SourceView
from airflow_backfill.core.splits.files import FileSplits
from airflow_backfill.core.splits.position import Position
from airflow_backfill.core.splits.ranges import AtKey, KeyRanges
from airflow_backfill.core.state import effect as fx
from airflow_backfill.core.state.load import load
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.commit import Commit, FileTotals, Protocol, TableMetadata
from airflow_backfill.core.values.control import Command
from airflow_backfill.core.values.cost import Cost
from airflow_backfill.core.values.round_size import RoundSize
from tests.core.running import Running

SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": "id", "type": "long", "nullable": True, "metadata": {}},
            {"name": "name", "type": "string", "nullable": True, "metadata": {}},
        ],
    }
)
SOURCE_ID, TARGET_ID = "source-1", "target-1"
FILES = (fx.FileSize(100, 10),) * 6
ROUND = RoundSize(bytes=200, rows=1_000)
NO_LAG = MaxLag(epochs=0)
PATIENCE = 10
COST = Cost(3, 1, 7_200, 5_000, 4_000, 300, 20, 10)


@dataclass
class MemoryLog:
    """A Delta log: commits by version. ``earliest`` is the oldest that was not cleaned up."""

    commits: list[Commit] = field(default_factory=list)
    earliest: int = 0
    gone: set[int] = field(default_factory=set)

    @property
    def head(self) -> int:
        return len(self.commits) - 1

    def read(self, version: int) -> Commit:
        if not self.earliest <= version <= self.head or version in self.gone:
            raise HistoryLost(f"version {version} is gone", version=version)
        return self.commits[version]

    def land(self, commit: Commit) -> Commit:
        assert commit.version == self.head + 1
        self.commits.append(commit)
        return commit


class Model:
    """One source, one target, one build, and everything an attempt may ask for."""

    def __init__(
        self,
        files: Sequence[fx.FileSize] = FILES,
        *,
        splits: int = 3,
        epoch: int = 7,
        spec: BackfillSpec | None = None,
        borders: Sequence[str] | None = None,
        now: int = 1_000_000,
    ) -> None:
        self.files = tuple(files)
        self.splits = splits
        self.epoch = epoch
        self.spec = spec or BackfillSpec(name="orders", source="/lake/orders", target="/marts/orders", key=("id",))
        self.borders = borders
        """Where ranges of keys end, for an arrangement; None for a snapshot of files."""
        if borders is not None:
            self.spec = replace(self.spec, strategy="arrangement")
        self.now = now
        self.write_ms = 0
        self.history = 1
        """How often the source was put back, and once."""
        self.source = self._source_log()
        self.target = self._target_log()
        self.commands: list[tuple[int, Command]] = []
        self.stored_plan: Plan | None = None
        self.effects: list[fx.Effect] = []
        self.rounds: list[tuple[int, int]] = []
        """When each round with rows was begun, and how many rows it read."""
        self.works: list[fx.Work] = []
        """What the commits of the target hold, in order."""
        self._generation = 0
        self._txns: dict[str, int] = {}
        self._make_tables()

    def _source_log(self) -> Any:
        return MemoryLog()

    def _target_log(self) -> Any:
        return MemoryLog()

    def _make_tables(self) -> None:
        metadata = TableMetadata(SOURCE_ID, SCHEMA, (), {FEED: "true"})
        protocol = Protocol(1, 4)
        self.source.land(Commit(0, self.now, "CREATE TABLE", metadata=metadata, protocol=protocol))
        for version in range(1, self.epoch + 1):
            mine = self.files[version - 1 :: self.epoch]
            self._commit_source("WRITE", added=_totals(mine), data_change=bool(mine))
        metadata = TableMetadata(TARGET_ID, SCHEMA, (), self._target_properties())
        self.target.land(Commit(0, self.now, "CREATE TABLE", metadata=metadata, protocol=protocol))

    def _target_properties(self) -> dict[str, str]:
        return {}

    # --- the source ---

    def write(self, rows: int = 1, size: int = 1, times: int = 1) -> None:
        """Commit an epoch that changes ``rows`` rows and has ``size`` bytes of change data."""
        for _ in range(times):
            self._commit_source("MERGE", changed=FileTotals(1, size, rows), data_change=True)

    def optimize(self) -> None:
        """Commit an epoch that changes no row."""
        self._commit_source("OPTIMIZE", added=FileTotals(1, 50, 5), removed=FileTotals(2, 50, 5), rewrites=True)

    def alter(self, **changes: Any) -> None:
        """Commit an epoch with another metaData action."""
        fields: dict[str, Any] = {"table_id": SOURCE_ID, "schema_json": SCHEMA, "configuration": {FEED: "true"}}
        self._commit_source("SET TBLPROPERTIES", metadata=TableMetadata(**{**fields, **changes}))

    def put_back(self, head: int) -> None:
        """The source's folder as it was at ``head``, from a backup: what is written next has other commits."""
        del self.source.commits[head + 1 :]
        self.history += 1

    def _commit_source(self, operation: str, **fields: Any) -> None:
        version = self.source.head + 1
        digest = f"{version} of history {self.history}"
        self.source.land(Commit(version, self.now, operation, **fields, digest=digest))

    def view(self, after: int) -> SourceView:
        plan, log = self.stored_plan, self.source
        assert plan is not None
        numbers = range(after + 1, log.head + 1)
        held = [n >= log.earliest and n not in log.gone for n in numbers]
        epochs = [epoch_of(plan, log.read(n)) if there else lost(n) for n, there in zip(numbers, held, strict=True)]
        table_id = next(c.metadata.table_id for c in reversed(log.commits) if c.metadata is not None)
        known = 0 <= after <= log.head and after >= log.earliest and after not in log.gone
        return SourceView(table_id, log.head, after, Backlog(epochs), digest=log.read(after).digest if known else None)

    # --- the target, as somebody else ---

    def foreign(self, operation: str = "WRITE", **fields: Any) -> None:
        """Somebody else's commit to the target; it changes rows unless told otherwise."""
        said = {"data_change": True, **fields}
        self.target.land(Commit(self.target.head + 1, self.now, operation, **said))

    def set_properties(self, **properties: str) -> None:
        """Somebody makes these the target's properties."""
        metadata = TableMetadata(TARGET_ID, SCHEMA, (), properties)
        self.target.land(Commit(self.target.head + 1, self.now, "SET TBLPROPERTIES", metadata=metadata))

    def land_text(self, app_id: str, seq: int, text: str) -> None:
        """A barrier with this record, whatever it says."""
        self._land(app_id, seq, text, fx.Nothing())

    # --- attempts ---

    def draft(self, lanes: int = 1) -> Plan:
        sizes = [f.bytes for f in self.files]
        rows = [f.rows for f in self.files]
        return Plan(
            build=build_id(TARGET_ID, self.spec.name),
            spec=self.spec,
            target_id=TARGET_ID,
            target_schema_json=SCHEMA,
            target_version=0,
            source=SourceFacts(SOURCE_ID, self.epoch, SCHEMA, (), digest=self.source.read(self.epoch).digest),
            splits=self._cut(sizes, None if None in rows else sum(r or 0 for r in rows)),
            lanes=lanes,
            settings={"spark.sql.session.timeZone": "UTC"},
        )

    def _cut(self, sizes: Sequence[int], rows: int | None) -> FileSplits | KeyRanges:
        if self.borders is not None:
            return KeyRanges(tuple((border,) for border in self.borders), sum(sizes), rows)
        return FileSplits(FileSplits.cut(sizes, self.splits), sum(sizes), rows, "d")

    def plan(self, lanes: int = 1) -> Plan:
        plan: Plan = Running(self, planning.settle(self.draft(lanes), self.now)).finish()
        return plan

    def attempt(self) -> Attempt:
        """The next attempt: newer than all before."""
        self._generation += 1
        return Attempt(self._generation, f"attempt-{self._generation}")

    def start(self, task: Goal, me: Attempt | None = None) -> Running:
        return Running(self, protocol.run(task, me or self.attempt()))

    def run(self, task: Goal, me: Attempt | None = None) -> BuildState:
        """An attempt from start to end: the state then, or its error."""
        state: BuildState = self.start(task, me).finish()
        return state

    def state(self) -> BuildState:
        state: BuildState = Running(self, load()).finish()
        return state

    def order(self, command: Command) -> int:
        self.commands.append((len(self.commands) + 1, command))
        return len(self.commands)

    def records(self) -> list[Record]:
        """What the barriers of the target say, in order."""
        found = (barrier_record(commit) for commit in map(self.target.read, range(self.target.head + 1)))
        return [record for record in found if record is not None]

    # --- a build, as far as a test needs it ---

    def sealed(self, **plan: Any) -> BuildState:
        """Planned, read and sealed at the pinned epoch."""
        self.plan(**plan)
        self.run(SnapshotGoal(0, self.stored_plan.lanes if self.stored_plan else 1, ROUND))
        return self.run(ConsumeLogGoal(ROUND, MaxLag(epochs=10**6), PATIENCE))

    def caught_up(self) -> BuildState:
        self.sealed()
        return self.run(CatchUpGoal(ROUND, NO_LAG, PATIENCE))

    def finished(self) -> BuildState:
        self.caught_up()
        return self.finished_after_proof()

    def finished_after_proof(self) -> BuildState:
        """Of a build that has caught up."""
        self.run(VerifyGoal())
        return self.run(FinishGoal())

    # --- answers ---

    def answer(self, effect: fx.Effect) -> Any:
        self.effects.append(effect)
        match effect:
            case fx.ReadHead():
                return self.target.head
            case fx.ReadCommit(version):
                return self.target.read(version)
            case fx.ReadPlan(build):
                plan = self.stored_plan
                return plan if plan is not None and plan.build == build else None
            case fx.CopyPlan(plan):
                self.stored_plan = plan
                return None
            case fx.CommitPlan() | fx.CommitRecord():
                return self._write(effect)
            case fx.SleepUntil():
                self.now += effect.left(self.now)
                return None
            case _:
                return self._look(effect)

    def _look(self, effect: fx.Effect) -> Any:
        match effect:
            case fx.ReadCommands(files):
                found = (c.metadata for c in reversed(self.target.commits) if c.metadata is not None)
                properties = next(found).configuration
                return fx.CommandsRead(self.now, tuple(self.commands), self.files if files else (), properties)
            case fx.ReadSourceLog(after):
                return self.view(after)
            case fx.NextChunk(_, positions):
                return self.next_chunk(positions)
            case fx.VerifyTarget(epoch, version, _, row_hash):
                return Certificate(epoch, version, 42, "digest", 16, self.now, row_hash)
            case fx.ReadCost():
                return COST
            case fx.ReadTransactions():
                table_id = next(c.metadata.table_id for c in reversed(self.target.commits) if c.metadata is not None)
                return fx.Transactions(table_id, dict(self._txns))

    def next_chunk(self, positions: Sequence[Position]) -> fx.Chunks:
        """Half of the first range that is not complete, then the rest of it."""
        split, position = next((n, p) for n, p in enumerate(positions) if isinstance(p, AtKey))
        return fx.Chunks({split: None if position.chunks else (f"{split}.5",)}, 1, 100, 10)

    def _write(self, effect: fx.CommitPlan | fx.CommitRecord) -> fx.CommitOutcome:
        if isinstance(effect, fx.CommitPlan):
            return self._land(app_id(effect.plan.build), 1, self._text(effect.plan.encode()), fx.Nothing())
        record = effect.record
        return self._land(record.app_id, record.seq, self._text(record.encode()), effect.work)

    def _text(self, text: str) -> str:
        """What a commit says for a record."""
        return text

    def _land(self, app: str, seq: int, text: str, work: fx.Work) -> fx.CommitOutcome:
        """As Delta does: a sequence number that is already there is skipped without a word."""
        if self._txns.get(app, 0) >= seq:
            return fx.CommitOutcome()
        added, metrics = self._rows(work)
        begun, self.now = self.now, self.now + self.write_ms
        commit = Commit(
            self.target.head + 1,
            self.now,
            "MERGE" if isinstance(work, fx.ApplyEpochs) else "WRITE",
            added,
            data_change=added.files > 0,
            txns={app: seq},
            user_metadata=text,
            metrics=metrics,
        )
        self.target.land(commit)
        self._txns[app] = seq
        self.works.append(work)
        if added.files:
            self.rounds.append((begun, added.rows or 0))
        return fx.CommitOutcome()

    def _rows(self, work: fx.Work) -> tuple[FileTotals, dict[str, int]]:
        match work:
            case fx.AppendFiles(runs):
                files = [self.files[n] for first, stop in runs for n in range(first, stop)]
                totals = _totals(files)
                return totals, {"numOutputRows": totals.rows or 0}
            case fx.ApplyEpochs(epochs, _, of):
                assert self.stored_plan is not None
                seen = self.view(epochs.start - 1).epochs[: len(epochs)]
                rows = -(-sum(e.rows for e in seen) // of)
                return FileTotals(1, rows, rows), {"numTargetRowsUpdated": rows, "numOutputRows": 10 * rows}
            case fx.ReadRanges(_, changes, before, after):
                more = 10 * sum(a != b for a, b in zip(map(_place, before), map(_place, after), strict=True))
                rows = more + (len(changes) if changes is not None else 0)
                return FileTotals(1, rows, rows), {"numOutputRows": rows}
            case _:
                return FileTotals(), {"numOutputRows": 0}


def _place(position: Position) -> tuple[str, ...] | None:
    """Where a range stands, whatever the epoch."""
    return position.key if isinstance(position, AtKey) else None


def _totals(files: Sequence[fx.FileSize]) -> FileTotals:
    unknown = any(f.rows is None for f in files)
    return FileTotals(len(files), sum(f.bytes for f in files), None if unknown else sum(f.rows or 0 for f in files))
