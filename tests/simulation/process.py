"""An attempt as a process: it stops at every effect, and can die or sleep there.

A write has two steps, as in Delta: the transaction begins (what it read is fixed, a known id makes it a
no-op), then it lands, conflicts, or fails. A process that dies between them leaves a JVM that may still
finish.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_backfill.core.attempts.attempt import BACK_OFF_MS, CONTENTION_LIMIT
from airflow_backfill.core.attempts.settle_plan import is_of_table, plan_in
from airflow_backfill.core.errors import (
    ApplicationFailed,
    BackfillError,
    Interrupted,
    SourceReplaced,
    SourceUnavailable,
    Undecodable,
)
from airflow_backfill.core.kafka.offsets import Batch
from airflow_backfill.core.kafka.sizing import TOLERANCE
from airflow_backfill.core.model.certificate import Certificate
from airflow_backfill.core.model.plan import Plan, app_id
from airflow_backfill.core.model.record import Record
from airflow_backfill.core.splits.partitions import held
from airflow_backfill.core.splits.position import Position
from airflow_backfill.core.splits.ranges import AtKey
from airflow_backfill.core.state import effect as fx
from airflow_backfill.core.state.drive import drive
from airflow_backfill.core.values.commit import Commit
from airflow_backfill.core.values.control import Command, Control, obey
from airflow_backfill.core.values.cost import Cost
from airflow_backfill.core.values.interruption import Begun
from airflow_backfill.core.values.proof_kind import ProofKind
from tests.simulation.digests import added_up, keep
from tests.simulation.faults import CALM
from tests.simulation.invariant import must
from tests.simulation.landing import FIRST, SPAN, LandingSource, key_of, last_records, no_rows, place_of, row
from tests.simulation.source import transform
from tests.simulation.target import Bag, Transaction, same

if TYPE_CHECKING:
    from tests.simulation.world import World

LONGEST_WAIT = BACK_OFF_MS << CONTENTION_LIMIT - 1
"""Milliseconds: the last back-off."""
STAGES = ("plan", "snapshot", "consume_log", "gate", "catch_up", "verify", "finish", "upstream")
"""What Airflow runs for a build, in order."""


@dataclass(frozen=True)
class Started:
    """An attempt that Airflow started, whatever became of it."""

    generation: int
    task: str
    lanes: int


class Process:
    """``known``: Airflow waits for it. ``result`` and ``error``: how it ended."""

    def __init__(self, world: World, name: str, task: str, generator: fx.Asks[Any]) -> None:
        self.world, self.name, self.task = world, name, task
        self.known = True
        self.generation = 0
        self.began = 0
        """The step at which it was started."""
        self.lanes = 1
        self.head = 0
        """Where the source stood when it was started."""
        self.ended = False
        self.result: Any = None
        self.error: BackfillError | None = None
        self.outlived = False
        """Whether the newest record it found was a sleeper's, which reaches back too far."""
        self.transaction: Transaction | None = None
        self.announcer: Process | None = None
        """The thread of the same application that announces epochs."""
        self.held: dict[int, list[int]] = {}
        """By partition: the records that were fetched last."""
        self.starts: dict[int, int] = {}
        """By partition: the first offset of Kafka's when it asked last."""
        self.decoded: list[tuple[int, int]] = []
        self.positions: tuple[Position, ...] = ()
        """Of the record that is written."""
        self.wakes = 0
        self.ahead = world.some_hours() if world.apart else 0
        """By how much its clock is ahead."""
        self.gate_was_free = False
        """Whether the gate was not on hold at one of its looks at the commands."""
        self.begun: Begun | None = None
        """What it does since it looked at the commands."""
        self.foreign_seen = world.foreign
        self.barred = world.barred
        """Whether it may know of what nobody gets past."""
        self.dropped: Plan | None = None
        """The plan of the build that it works on, if the table of that was dropped meanwhile."""
        self._generator = generator
        self._effect: fx.Effect | None = None
        self._advance(lambda: next(generator))

    @property
    def recovers(self) -> bool:
        """Whether it is about to write the barrier of a recovery."""
        effect = self._effect
        return (
            not self.ended
            and self.task == "recover"
            and isinstance(effect, fx.CommitRecord)
            and (isinstance(effect.record, Record))
        )

    @property
    def pinned(self) -> int | None:
        return self.dropped.source.epoch if self.dropped else self.world.pinned

    @property
    def plan(self) -> Plan:
        found = self.dropped or self.world.stored_plan or plan_of(self.world, self.world.build)
        assert found is not None
        return found

    @property
    def commands(self) -> list[tuple[int, Command]]:
        return [] if self.dropped else self.world.commands

    @property
    def now(self) -> int:
        """What time it is by its clock."""
        return self.world.now + self.ahead

    def step(self) -> None:
        """Answer the effect the attempt waits at, and run it to its next one."""
        assert not self.ended and self._effect is not None
        try:
            answer = self._answer(self._effect)
        except BackfillError as error:
            thrown = error
            self._advance(lambda: self._generator.throw(thrown))
            return
        if answer is not _BEGUN:
            self._advance(lambda: self._generator.send(answer))

    def die(self) -> None:
        """Kill the Python side. A transaction under way stays with the world's orphans."""
        self.ended = True
        self._generator.close()
        if self.transaction is not None:
            self.world.orphans.append(self.transaction)

    def _advance(self, resume: Any) -> None:
        try:
            self._effect = resume()
            if isinstance(self._effect, fx.ReadCost):  # no step of the world: nothing depends on the answer
                self._effect = self._generator.send(Cost(attempts=1))
        except StopIteration as stop:
            self.ended, self.result = True, stop.value
        except BackfillError as error:
            self.ended, self.error = True, error

    def _answer(self, effect: fx.Effect) -> Any:
        world, target = self.world, self.world.target
        match effect:
            case fx.ReadHead():
                self.outlived = self.outlived or (world.ages and target.outlived)
                return target.head
            case fx.ReadCommit(version):
                return target.read(version)
            case fx.ReadPlan() | fx.CopyPlan() | fx.CommitPlan():
                return self._answer_plan(effect)
            case fx.ReadCommands(_, spared):
                self.begun = Begun.under(self.commands, self.now, spared=spared)
                self.gate_was_free = self.gate_was_free or not obey(Control(), self.commands).held
                at = world.source.versions[self.pinned].files if self.pinned is not None else ()
                files = tuple(fx.FileSize(bytes=len(keys), rows=len(keys)) for keys in at)
                return fx.CommandsRead(self.now, tuple(self.commands), files, world.target.properties)
            case fx.ReadSourceLog(after):
                world.judge.looks[self.name] = world.steps
                return world.source.view(self.plan, after)
            case fx.CommitRecord(record, work):
                self.positions = record.positions if isinstance(record, Record) else ()
                return self._write(record.app_id, record.seq, record.encode(), work)
            case _:
                return self._answer_reading(effect)

    def _answer_reading(self, effect: fx.Effect) -> Any:
        match effect:
            case fx.NextChunk(epoch, positions):
                return self._cut(epoch, positions)
            case fx.AskBroker() | fx.ReadLanded() | fx.ReadIngested() | fx.FetchRecords():
                return self._answer_topic(effect)
            case fx.DecodeRecords(work, dead_letters):
                return self._decode(work, beside=dead_letters)
            case fx.VerifyTarget():
                return self._prove(effect)
            case fx.ReadTransactions():
                return fx.Transactions(self.world.target.table_id, dict(self.world.target.txns))
            case fx.SleepUntil():
                left = effect.left(self.now)
                must(left <= LONGEST_WAIT, f"{self.name} waits for {left // 1000} s: {effect.why}")
                self.wakes = self.world.now + left
                return None

    def _answer_topic(self, effect: fx.AskBroker | fx.ReadLanded | fx.ReadIngested | fx.FetchRecords) -> Any:
        source = self.world.source
        assert isinstance(source, LandingSource)
        if (
            isinstance(effect, fx.AskBroker | fx.FetchRecords)
            and self.world.steps < CALM
            and self.world.happens("broker")
        ):
            raise SourceUnavailable("no broker answers")
        match effect:
            case fx.AskBroker():
                self.starts = {n: partition.start for n, partition in source.partitions.items()}
                return fx.Topic(source.topic_id, {n: partition.log for n, partition in source.partitions.items()})
            case fx.ReadLanded(epochs, known):
                return source.sift(epochs, known)
            case fx.ReadIngested(epoch):
                return source.ingested(epoch)
            case fx.FetchRecords(ranges, hold, kept):
                fetched = {n: source.fetch(n, offsets) for n, offsets in ranges.items()}
                if kept is not None:
                    fetched |= {n: source.kept(n, offsets, kept.epoch) for n, offsets in kept.ranges.items()}
                if source.topic_id != FIRST:
                    raise SourceReplaced("what was read is another topic's")
                size = sum(source.size(offset) for found in fetched.values() for offset in found)
                if hold:
                    self.held = fetched
                    few = max(map(len, (*ranges.values(), *(kept.ranges.values() if kept else ()))), default=0) <= 1
                    must(few or size <= TOLERANCE * self.world.round_bytes, f"a round of {size} bytes")
                batches = {n: Batch(found[0], found[-1], len(found)) for n, found in fetched.items() if found}
                return fx.Fetched(batches, size)

    def _answer_plan(self, effect: fx.ReadPlan | fx.CopyPlan | fx.CommitPlan) -> Any:
        match effect:
            case fx.ReadPlan(build):
                kept = (self.world.stored_plan, self.dropped)
                found = next((plan for plan in kept if plan is not None and plan.build == build), None)
                return found or plan_of(self.world, build)
            case fx.CopyPlan(plan):
                must(plan.build == self.world.build, "the plan of a dropped build is taken for that of the table")
                self.world.stored_plan = plan
                return None
            case fx.CommitPlan(plan):
                return self._write(app_id(plan.build), 1, plan.encode(), fx.Nothing())

    def _write(self, app: str, seq: int, text: str, work: fx.Work) -> Any:
        world = self.world
        if self.transaction is None:
            appends, removes, merge = self._rows(work)
            writer = "" if self.dropped else self.name
            self.transaction = world.target.begin(app, seq, text, writer, appends, removes, merge)
            if merge and world.adds_up:
                keep(world, self.plan, work)
            return _BEGUN
        transaction, self.transaction = self.transaction, None
        fault = world.write_fault()
        if fault == "lost request":
            return fx.CommitOutcome(error=ApplicationFailed("the request was lost"))
        if not isinstance(work, fx.Nothing) and (stopped := self._stopped()):
            # Or the commit was being written already, and lands.
            if world.rng.random() < 0.5:
                world.target.finish(transaction)
            return fx.CommitOutcome(error=Interrupted(stopped))
        conflict = world.target.finish(transaction)
        if fault == "lost response":
            return fx.CommitOutcome(error=ApplicationFailed("the response was lost"))
        if world.adds_up and not (transaction.merge or transaction.skipped or conflict):
            keep(world, self.plan, work)
        return fx.CommitOutcome(conflict=conflict)

    def _stopped(self) -> str | None:
        """By which command, if somebody looked in time."""
        stopped = self.begun.stopped_by(self.commands) if self.begun is not None else None
        return stopped if stopped and self.world.rng.random() < 0.7 else None

    def _rows(self, work: fx.Work) -> tuple[Bag, frozenset[int], bool]:
        source = self.world.source
        match work:
            case fx.Nothing():
                return Counter(), frozenset(), False
            case fx.AppendFiles(runs):
                assert self.pinned is not None
                rows = [row for run in runs for row in source.read_files(self.pinned, range(*run))]
                return Counter(rows), frozenset(), False
            case fx.ApplyEpochs(epochs, bucket, of):
                upserts, deletes = source.changes(epochs.start, epochs.stop)
                mine = {key for key in upserts.keys() | deletes if key % of == bucket}
                return Counter((k, v) for k, v in upserts.items() if k in mine), frozenset(mine), True
            case fx.ReadRanges(epoch, epochs, before, after):
                low, high = self._read_up_to(before), self._read_up_to(after)
                rows = source.read_keys(epoch, low, high)
                if epochs is None:
                    return Counter(rows), frozenset(), False
                upserts, deletes = source.changes(epochs.start, epochs.stop)
                mine = {key for key in upserts.keys() | deletes if key <= low}
                behind = Counter((k, v) for k, v in upserts.items() if k in mine)
                return behind + Counter(rows), frozenset(mine), bool(mine)
            case fx.TakeOffsets() if self.world.ordered:
                return self._last_values()
            case fx.TakeOffsets():
                return Counter(shown for one in self.decoded for shown in transform(dict([one])).items()), _NONE, False
            case fx.RewriteKeys(epoch):
                expected, found = self.world.made(source.versions[epoch].rows), self.world.target.content
                keys = {key for key, _ in (expected - found) + (found - expected)}
                return Counter({row: n for row, n in expected.items() if row[0] in keys}), frozenset(keys), True

    def _last_values(self) -> tuple[Bag, frozenset[int], bool]:
        """The rows of a round that are later than the target's, and than what deleted theirs; the memory of that is
        written first.
        """
        rows, gone = last_records(dict(self.decoded))
        self.world.memory |= set(gone.values())
        upto, there = held(self.positions), dict(self.world.target.content.keys())
        counts = sorted((one for one in self.world.memory if one % SPAN <= upto.get(one // SPAN, -1)), key=place_of)
        deleted = {key_of(one): one for one in counts}
        later = {
            key: one
            for key, one in (rows | gone).items()
            if all(place_of(one) >= place_of(known[key]) for known in (there, deleted) if key in known)
        }
        return Counter({(key, one): 1 for key, one in later.items() if key in rows}), frozenset(later), True

    def _decode(self, work: fx.TakeOffsets, *, beside: bool) -> fx.Decoded:
        source = self.world.source
        assert isinstance(source, LandingSource)
        self.decoded = [row(n, at) for n, some in work.fetched.items() for at in self.held[n] if at in some]
        if work.epochs is not None:
            taken = source.taken(work.landed, self.world.pinned or 0, work.epochs.last)
            self.decoded += set(taken) if work.repeats else taken
        counted = fx.Decoded(*no_rows(value for _, value in self.decoded))
        if counted.undecodable and self.world.stops_at_undecodable and not beside:
            raise Undecodable("records cannot be decoded")
        return counted

    def _cut(self, epoch: int, positions: tuple[Position, ...]) -> fx.Chunks:
        """Some keys more: within a range, to its end, or over several of them."""
        world, source = self.world, self.world.source
        borders = world.key_borders or []
        low = self._read_up_to(positions)
        keys = [key for key in sorted(source.versions[epoch].rows) if key > low]
        taken = keys[: world.rng.randrange(1, 6)]
        end = taken[-1] if len(taken) < len(keys) else None
        ends: dict[int, tuple[str, ...] | None] = {}
        for split, position in enumerate(positions):
            border = borders[split] if split < len(borders) else None
            if not isinstance(position, AtKey):
                continue
            if end is not None and (border is None or end < border):
                ends[split] = (str(end),)
                break
            ends[split] = None
            if end == border:
                break
        return fx.Chunks(ends, 1, len(taken), len(taken))

    def _read_up_to(self, positions: tuple[Position, ...]) -> float:
        """The key up to which all ranges are read, one after another."""
        for split, position in enumerate(positions):
            if isinstance(position, AtKey):
                before = self.world.key_borders[split - 1] if split and self.world.key_borders else float("-inf")
                return float(position.key[0]) if position.key else before
        return float("inf")

    def _prove(self, asked: fx.VerifyTarget) -> Certificate:
        world, epoch, version = self.world, asked.epoch, asked.target_version
        if stopped := self._stopped():
            raise Interrupted(stopped)
        if world.rng.random() < world.faults.get("verifier error", 0):
            raise ApplicationFailed("the comparison broke off")
        if asked.kind is ProofKind.INCREMENTAL:
            certificate = added_up(world, self.plan, asked, self.now)
            if certificate is not None:
                return certificate
        content = world.target.log[version].content
        if not same(content, world.expected(epoch)):
            raise world.judge.unequal(epoch, version)
        world.judge.proofs.add((epoch, version))
        return Certificate(epoch, version, sum(content.values()), "digest", 1, self.now, asked.row_hash)


_BEGUN = object()
_NONE: frozenset[int] = frozenset()


def plan_of(world: World, build: str) -> Plan | None:
    """The plan of a build in the target's log, as long as its commit is there."""
    commits: list[Commit] = [landed.commit for landed in world.target.log]
    plans = ((commit.version, plan_in(commit, build)) for commit in commits)
    # No process of the world: that would draw a clock.
    read = world.target.read
    return next(
        (p for n, p in plans if p is not None and drive(is_of_table(p, n), lambda one: read(one.version))), None
    )
