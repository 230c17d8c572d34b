"""Answers an attempt's effects with a real target and source: the only place where decisions meet Spark.

It decides nothing. What a commit carries was decided by the core; what happened to it, the core reads back.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_backfill.core.errors import BackfillError, HistoryLost, Interrupted, NotAppendOnly
from airflow_backfill.core.model.announcement import Announcement
from airflow_backfill.core.model.fence import Fence
from airflow_backfill.core.model.plan import Plan, app_id
from airflow_backfill.core.model.record import Certificate, Record
from airflow_backfill.core.splits.files import FileSplits
from airflow_backfill.core.splits.partitions import held
from airflow_backfill.core.splits.position import Position
from airflow_backfill.core.splits.ranges import KeyRanges
from airflow_backfill.core.state import effect as fx
from airflow_backfill.core.values.epoch import EpochRange
from airflow_backfill.core.values.interruption import Begun
from airflow_backfill.ledger.control_folder import memory_beside
from airflow_backfill.ledger.reader import BuildReader, SourceWatcher, drive
from airflow_backfill.spark.delta.changes import read_changes
from airflow_backfill.spark.delta.even_tasks import even_tasks
from airflow_backfill.spark.delta.ranges import Behind, Ranges, stands
from airflow_backfill.spark.delta.snapshot_files import SnapshotFiles
from airflow_backfill.spark.delta_internals import rebuilding, transactions
from airflow_backfill.spark.kafka.expected_rows import TopicRows
from airflow_backfill.spark.kafka.key_partitions import KeyPartitions
from airflow_backfill.spark.kafka.last_values import last_per_key, place_columns
from airflow_backfill.spark.kafka.proof import TopicProof
from airflow_backfill.spark.kafka.tombstones import Tombstones
from airflow_backfill.spark.kafka.topic_source import History
from airflow_backfill.spark.session.failure import classify, coded
from airflow_backfill.spark.session.faults import crash_point
from airflow_backfill.spark.session.interrupting import interruptible
from airflow_backfill.spark.session.settings import SessionSettings, assert_safe, read_as_written
from airflow_backfill.spark.target_table import apply
from airflow_backfill.spark.target_table.net_change import Buckets, NetChanges, Part, net_changes
from airflow_backfill.spark.target_table.repeated_keys import RepeatedKeys
from airflow_backfill.spark.transform.transform import Transform, parse, schema_of, some_columns
from airflow_backfill.spark.verify.proof import Proof
from airflow_backfill.spark.verify.repair import rewrites

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

_Result = TypeVar("_Result")

NARROW_BYTES = 1 << 30
"""The size of a snapshot from which on a MERGE is told the range of the changed keys."""


class Shell:
    """Runs generators of effects against the target at ``target``, in one Spark session."""

    def __init__(self, spark: SparkSession, target: str) -> None:
        read_as_written(spark)
        self.spark = spark
        self.target = target
        self.reader = BuildReader(target, spark)
        self._begun: Begun | None = None
        """What is done since the last look at the commands."""

    def run(self, generator: fx.Asks[_Result]) -> _Result:
        """Drive an attempt to its end."""
        return drive(generator, self.answer)

    def answer(self, effect: fx.Effect[Any]) -> Any:
        """Raises Interrupted, or has it in what is Written, if a command stopped a long effect."""
        if self._begun is None or not _long(effect):
            return self._answer(effect)
        begun, build = self._begun, self.plan.build
        with interruptible(self.spark, lambda: begun.stopped_by(self.reader.commands(build))) as unit:
            try:
                answer = self._answer(effect)
            except Exception as error:
                if unit.stopped is None:
                    raise
                raise Interrupted(unit.stopped) from error
        failed = isinstance(answer, fx.CommitOutcome) and (answer.error or answer.conflict)
        return fx.CommitOutcome(error=Interrupted(unit.stopped)) if failed and unit.stopped else answer

    def _answer(self, effect: fx.Effect[Any]) -> Any:
        match effect:
            case fx.CommitPlan(plan):
                return self._write_plan(plan)
            case fx.CopyPlan(plan):
                return self.reader.control.store_plan(plan)
            case fx.ReadCommands(files, spared):
                commands = self.reader.commands(self.plan.build)
                self._begun = Begun.under(commands, spared=spared)
                return fx.CommandsRead(_now(), commands, self._sizes if files else (), self.reader.properties)
            case fx.ReadSourceLog(after):
                return self._watcher.view(after)
            case fx.NextChunk():
                return self._ranges.cut(self._key_ranges, effect)
            case fx.AskBroker() | fx.ReadLanded() | fx.ReadIngested() | fx.FetchRecords() | fx.DecodeRecords():
                return self._history.answer(effect)
            case fx.CommitRecord():
                return self._write(effect)
            case fx.VerifyTarget():
                return self._prove(effect)
            case fx.SleepUntil(until, why):
                log.info("waiting: %s", why)
                time.sleep(max(0.0, until - _now()) / 1000)
            case _:
                return self._read(effect)

    def _read(self, effect: fx.Effect[Any]) -> Any:
        match effect:
            case fx.ReadPlan(build):
                return self._plan_read(self.reader.plan(build))
            case fx.ReadTransactions():
                return fx.Transactions(*transactions(self.spark, self.target))
            case _:
                return self.reader.answer(effect)

    # --- what is fixed once the plan is known ---

    plan: Plan

    def _plan_read(self, plan: Plan | None) -> Plan | None:
        if plan is not None:
            self.plan = plan
            SessionSettings.from_json(plan.settings).set(self.spark)
            assert_safe(self.spark)
        return plan

    @cached_property
    def _watcher(self) -> SourceWatcher:
        return SourceWatcher(self.plan, self.spark)

    @cached_property
    def _transform(self) -> Transform:
        spec = self.plan.spec
        if spec.topic is not None:
            return self._history.transform
        schema = some_columns(schema_of(self.plan.source.schema_json), self.plan.source.columns)
        return parse(self.spark, schema, spec.select, spec.where)

    @cached_property
    def _history(self) -> History:
        return History(self.spark, self.plan)

    @property
    def _key(self) -> Sequence[str]:
        return self._transform.target_key(self.plan.spec.key)

    def _prove(self, wanted: fx.VerifyTarget) -> Certificate:
        crash_point("before_verify")
        proof = self._proof(wanted.positions)
        if self.plan.splits.landing:
            return TopicProof(proof, TopicRows(self._history, wanted.positions)).certificate(wanted, _now())
        return proof.certificate(wanted.epoch, wanted.target_version, _now())

    def _proof(self, positions: tuple[Position, ...]) -> Proof:
        """``positions`` say where a topic's seams are."""
        expected = None
        if self.plan.splits.landing:
            expected = TopicRows(self._history, positions).whole
        return Proof(self.spark, self.plan, self._transform, self.reader.control, history=expected)

    @cached_property
    def _snapshot(self) -> SnapshotFiles:
        return SnapshotFiles(self.spark, self.plan.spec.table, self.plan.source.epoch)

    @cached_property
    def _sizes(self) -> tuple[fx.FileSize, ...]:
        """The pinned files; HistoryLost unless they are the very ones that were planned."""
        if not isinstance(self.plan.splits, FileSplits):
            return ()
        files = self._snapshot.files
        if FileSplits.digest_of((f.path, f.size) for f in files) != self.plan.splits.digest:
            raise HistoryLost(
                f"version {self.plan.source.epoch} of the source no longer has the files that were planned: the "
                "source was put back or rewritten; "
                "plan again with on_existing='restart'",
                epoch=self.plan.source.epoch,
            )
        return tuple(fx.FileSize(f.size, f.rows) for f in files)

    @property
    def _key_ranges(self) -> KeyRanges:
        assert isinstance(self.plan.splits, KeyRanges)
        return self.plan.splits

    @cached_property
    def _ranges(self) -> Ranges:
        source = self.plan.source
        return Ranges.of(self.spark, self.plan.spec, self._transform.source_schema, source.partition_columns)

    # --- writing ---

    def _write_plan(self, plan: Plan) -> fx.CommitOutcome:
        txn = apply.Txn(app_id(plan.build), 1)
        text = self.reader.control.enclosures.enclosed(plan.encode())
        return self._attempted(lambda: apply.empty(self.spark, self.target, txn, text))

    def _write(self, write: fx.CommitRecord) -> fx.CommitOutcome:
        record = write.record
        txn, text = apply.Txn(record.app_id, record.seq), self.reader.control.enclosures.enclosed(record.encode())
        log.info("%s: seq %d of %s", _name(record), record.seq, record.app_id)
        return self._attempted(lambda: self._commit(write, txn, text))

    def _commit(self, write: fx.CommitRecord, txn: apply.Txn, text: str) -> None:
        match write.work:
            case fx.Nothing():
                apply.empty(self.spark, self.target, txn, text)
            case fx.AppendFiles(runs):
                self._append_files([range(start, stop) for start, stop in runs], txn, text)
            case fx.ApplyEpochs(epochs) if self.plan.appends:
                apply.append(self._added(epochs), self.target, txn, text)
            case fx.ApplyEpochs():
                self._apply_epochs(write.work, txn, text)
            case fx.ReadRanges():
                self._read_ranges(write.work, txn, text)
            case fx.TakeOffsets():
                assert isinstance(write.record, Record)
                self._take_offsets(write.record, txn, text)
            case fx.RewriteKeys(epoch):
                assert isinstance(write.record, Record)
                with rewrites(self._proof(write.record.positions), epoch, write.record.prev) as rows:
                    apply.rewrite(rows, self.target, self._key, txn, text)

    def _append_files(self, chosen: Sequence[range], txn: apply.Txn, text: str) -> None:
        rows = self._transform.apply(self._snapshot.read(*chosen))
        with even_tasks(self.spark, [self._sizes[n].bytes for some in chosen for n in some]):
            apply.append(rows, self.target, txn, text)

    def _apply_epochs(self, work: fx.ApplyEpochs, txn: apply.Txn, text: str) -> None:
        buckets = Buckets(work.bucket, work.bucket + 1, work.of) if work.of > 1 else None
        with self._net(work.epochs, buckets) as net:
            crash_point("before_apply")
            self._apply_checked(net, work.epochs.last, None, txn, text)

    def _read_ranges(self, work: fx.ReadRanges, txn: apply.Txn, text: str) -> None:
        """The changes behind the old positions and the rows up to the new ones: their keys are disjoint."""
        ranges = self._key_ranges
        first, low = stands(ranges, work.before)
        reached, high = stands(ranges, work.after)
        more = (first, low) != (reached, high)
        read = self._ranges.rows(work.epoch, low, high if reached < len(ranges) else None)
        rows = self._transform.apply(read) if more else None
        if work.changes is None:
            assert rows is not None
            apply.append(rows, self.target, txn, text)
            return
        behind = Behind(self._ranges.order, low if first < len(ranges) else None)
        with self._net(work.changes, behind) as net:
            crash_point("before_apply")
            self._apply_checked(net, work.epoch, rows, txn, text)

    def _take_offsets(self, record: Record, txn: apply.Txn, text: str) -> None:
        crash_point("before_apply")
        history = self._history
        if history.draft is not None:
            history.draft.commit(txn.app_id, txn.version, text)
        elif self.plan.spec.key:
            self._take_last_values(record, txn, text)
        else:
            apply.append(self._transform.apply(history.taken), self.target, txn, text)

    def _take_last_values(self, record: Record, txn: apply.Txn, text: str) -> None:
        order, key = self._history.order, self._key
        with last_per_key(self._history.taken, self._transform, key, order) as net:
            memory = memory_beside(self.target, self.plan.build)
            if order is None:
                if memory in self.plan.made:
                    KeyPartitions(self.spark, memory, key).check(net)
                self._apply(net, txn, text)
                return
            place = place_columns(self._transform, order)
            tombstones = Tombstones(self.spark, memory, key, place)
            tombstones.tidy(lambda: held(self.reader.state(self.plan.build).positions))
            sifted = tombstones.sifted(net, held(record.positions))
            apply.merge(sifted, self.target, key, txn, text, narrowed=self._narrowed, place=place)

    def _added(self, epochs: EpochRange) -> DataFrame:
        """The rows that these epochs added, as they are: no key is looked at, and twins stay twins."""
        spec, columns = self.plan.spec, self._transform.source_schema.fieldNames()
        changes = read_changes(self.spark, self.plan.spec.table, epochs, columns, spec.key, feed=False)
        if not changes.only_adds:
            raise NotAppendOnly(
                f"epochs {epochs.start} to {epochs.last} do more than add rows; give the source a change data "
                "feed and the build a key, then plan "
                "again with on_existing='restart'",
                epoch=epochs.start,
            )
        changes.prove(changes.counted())
        crash_point("before_apply")
        return self._transform.apply(changes.frame)

    def _net(self, epochs: EpochRange, part: Part | None) -> NetChanges:
        spec, transform = self.plan.spec, self._transform
        with rebuilding(self.spark, self.target):
            changes = read_changes(self.spark, spec.table, epochs, transform.source_schema.fieldNames(), spec.key)
            for leg in changes.legs:
                log.info("epochs %d to %d by %s: %s", leg.epochs.start, leg.epochs.last, leg.route.value, leg.reason)
            return net_changes(changes, transform, self._key, part)

    def _apply_checked(self, net: NetChanges, epoch: int, more: DataFrame | None, txn: apply.Txn, text: str) -> None:
        """Apply changes of the source up to ``epoch``, unless a key has several rows there; and ``more`` rows."""
        with self._repeated_keys.settled(net, epoch) as settled:
            self._apply(settled if more is None else settled.with_new(more), txn, text)

    @cached_property
    def _repeated_keys(self) -> RepeatedKeys:
        spec = self.plan.spec
        return RepeatedKeys(self.spark, spec.table, self.target, self._transform, spec.key)

    def _apply(self, net: NetChanges, txn: apply.Txn, text: str) -> None:
        if net.empty:
            apply.empty(self.spark, self.target, txn, text)
        elif net.only_inserts:
            apply.append(net.rows(), self.target, txn, text)
        else:
            apply.merge(net, self.target, self._key, txn, text, narrowed=self._narrowed)

    @property
    def _narrowed(self) -> bool:
        return self.plan.splits.bytes >= NARROW_BYTES

    def _attempted(self, commit: Any) -> fx.CommitOutcome:
        """What the client was told about a commit."""
        crash_point("before_commit")
        try:
            commit()
        except BackfillError as error:
            return fx.CommitOutcome(error=error)
        except Exception as error:
            conflict = classify(error)
            if conflict is not None:
                log.warning("the commit lost to another one: %s", conflict.value)
                return fx.CommitOutcome(conflict=conflict.value)
            log.exception("the commit failed")
            return fx.CommitOutcome(error=coded(error))
        crash_point("after_commit")
        return fx.CommitOutcome()


def _name(record: Record | Announcement | Fence) -> str:
    match record:
        case Record():
            return record.event.value
        case Announcement():
            return record.kind.value
        case Fence():
            return "fence"


def _long(effect: fx.Effect[Any]) -> bool:
    """Whether it may take long, and is somebody's work: a barrier without rows is neither."""
    match effect:
        case fx.CommitRecord(_, work):
            return not isinstance(work, fx.Nothing)
        case fx.NextChunk() | fx.ReadLanded() | fx.FetchRecords() | fx.DecodeRecords() | fx.VerifyTarget():
            return True
        case _:
            return False


def _now() -> int:
    return time.time_ns() // 1_000_000
