"""Answers an attempt's effects with a real target and source.

It decides nothing: the core decides what a commit carries, and reads back what happened to it.
"""

from __future__ import annotations

import logging
import threading
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_backfill.core.errors import ApplicationFailed, BackfillError, Fenced, Interrupted, SourceUnavailable
from airflow_backfill.core.model.announcement import Announcement
from airflow_backfill.core.model.fence import Fence
from airflow_backfill.core.model.plan import Plan, app_id
from airflow_backfill.core.model.record import Record
from airflow_backfill.core.source.source_log import SourceWatch
from airflow_backfill.core.state import effect as fx
from airflow_backfill.core.state.drive import drive
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.interruption import Begun
from airflow_backfill.core.values.phase import Event, Phase
from airflow_backfill.core.values.round_size import ROUND_BYTES
from airflow_backfill.ledger.clock import now_ms
from airflow_backfill.ledger.open_source import watch_source
from airflow_backfill.ledger.reader import BuildReader
from airflow_backfill.spark.delta_internals import transactions
from airflow_backfill.spark.session.cost import Costs
from airflow_backfill.spark.session.failure import coded, conflict_of
from airflow_backfill.spark.session.faults import crash_point
from airflow_backfill.spark.session.interrupting import interruptible
from airflow_backfill.spark.session.lost_file import with_way_back
from airflow_backfill.spark.session.redaction import redacts
from airflow_backfill.spark.session.settings import SessionSettings, assert_safe, override, size_session
from airflow_backfill.spark.strategies.strategy import Rounds, rounds
from airflow_backfill.spark.target_table import apply
from airflow_backfill.spark.target_table.compaction import compact
from airflow_backfill.spark.verify.repair import rewrites

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_Result = TypeVar("_Result")

SUPERSEDED = "superseded"
READS = (fx.ReadHead, fx.ReadCommit, fx.ReadPlan, fx.ReadCommands, fx.ReadSourceLog)
"""Effects that only read logs and orders. Rounds and proofs are repeated by the attempt itself."""
READS_AGAIN = (1, 4, 16, 64)
"""Seconds before a read that a store has not answered is repeated. A build of weeks meets many such times, and each
would use up one of its task's tries.
"""


class Shell:
    """Runs generators of effects against the target at the location ``target``, in one Spark session.

    Once ``stopped`` is set, no other effect begins: ApplicationFailed. ``round_bytes`` is the most that a round reads.
    Once Airflow has started a newer attempt than ``me`` for the same task, it ends even in a round: Fenced. ``costs``:
    what ``me`` has cost so far, None if that is unknown.
    """

    def __init__(
        self,
        spark: SparkSession,
        target: str,
        stopped: threading.Event | None = None,
        round_bytes: int = ROUND_BYTES,
        me: Attempt | None = None,
        costs: Costs | None = None,
    ) -> None:
        override(spark)
        size_session(spark)
        self.round_bytes = round_bytes
        self._me, self._costs = me, costs
        self.stopped = stopped or threading.Event()
        self.spark = spark
        self.target = target
        self.reader = BuildReader(target, spark)
        self._begun: Begun | None = None
        """The work since the last ReadCommands."""

    def run(self, generator: fx.Asks[_Result]) -> _Result:
        """Drive an attempt to its end."""
        return drive(generator, self.answer)

    def answer(self, effect: fx.Effect[Any]) -> Any:
        """The answer to an effect. If a command stops a long effect: raises Interrupted, or, for CommitRecord, returns
        a CommitOutcome with it. Errors are coded, so that an attempt can tell which of them pass.
        """
        for seconds in READS_AGAIN if isinstance(effect, READS) else ():
            try:
                return self._answered(effect)
            except SourceUnavailable as error:
                log.warning("%s; asked again in %d s", error, seconds)
                self.stopped.wait(seconds)
        return self._answered(effect)

    def _answered(self, effect: fx.Effect[Any]) -> Any:
        if self.stopped.is_set():
            raise ApplicationFailed("the application was stopped")
        try:
            return self._interruptibly(effect)
        except BackfillError as error:
            raise self._coded(error) from error.__cause__
        except Exception as error:
            failure = self._coded(error)
            log.error("%s failed: %s", type(effect).__name__, failure, exc_info=not redacts())
            raise failure from error

    def _coded(self, error: Exception) -> BackfillError:
        return with_way_back(coded(error), self.target, self.reader.log)

    def _interruptibly(self, effect: fx.Effect[Any]) -> Any:
        if isinstance(effect, fx.ReadCommands) and (why := self._superseded()) is not None:
            raise _ended(why)
        if self._begun is None or not _long(effect):
            return self._answer(effect)
        begun, build = self._begun, self.plan.build
        with interruptible(
            self.spark, lambda: self._superseded() or begun.stopped_by(self.reader.commands(build))
        ) as unit:
            try:
                if _seals(effect):
                    # Before the commit: whatever ends this attempt meanwhile, the next one compacts again.
                    compact(self.spark, self.reader)
                    if unit.stopped is not None:
                        return fx.CommitOutcome(error=_ended(unit.stopped))
                answer = self._answer(effect)
            except Exception as error:
                if unit.stopped is None:
                    raise
                raise _ended(unit.stopped) from error
        failed = isinstance(answer, fx.CommitOutcome) and (answer.error or answer.conflict)
        return fx.CommitOutcome(error=_ended(unit.stopped)) if failed and unit.stopped else answer

    def _superseded(self) -> str | None:
        """SUPERSEDED if Airflow has started a newer attempt for the same task: it has lost sight of this one."""
        try:
            newer = None if self._me is None else self.reader.control.superseded_by(self._me)
        except BackfillError as error:
            log.warning("newer attempts cannot be read; only their claims are noticed: %s", error)
            return None
        return None if newer is None else SUPERSEDED

    def _answer(self, effect: fx.Effect[Any]) -> Any:
        match effect:
            case fx.CommitPlan(plan):
                return self._write_plan(plan)
            case fx.CopyPlan(plan):
                return self.reader.control.store_plan(plan)
            case fx.ReadCommands(files, spared):
                now, commands = now_ms(), self.reader.commands(self.plan.build)
                self._begun = Begun.under(commands, now, spared=spared)
                return fx.CommandsRead(now, commands, self._rounds.files if files else (), self.reader.properties)
            case fx.ReadSourceLog(after):
                return self._watcher.view(after)
            case (
                fx.NextChunk()
                | fx.AskBroker()
                | fx.ReadLanded()
                | fx.ReadIngested()
                | fx.FetchRecords()
                | fx.DecodeRecords()
            ):
                return self._rounds.answer(effect)
            case fx.CommitRecord():
                return self._write(effect)
            case fx.VerifyTarget():
                crash_point("before_verify")
                return self._rounds.certificate(effect, now_ms())
            case fx.SleepUntil():
                log.info("waiting: %s", effect.why)
                self.stopped.wait(effect.left(now_ms()) / 1000)
            case _:
                return self._read(effect)

    def _read(self, effect: fx.Effect[Any]) -> Any:
        match effect:
            case fx.ReadPlan(build):
                return self._plan_read(self.reader.plan(build))
            case fx.ReadTransactions():
                return fx.Transactions(*transactions(self.spark, self.target))
            case fx.ReadCost() if self._me is not None and self._costs is not None:
                return self.reader.control.cost({self._me: self._costs.so_far()})
            case _:
                return self.reader.answer(effect)

    # --- fixed once the plan is known ---

    plan: Plan

    def _plan_read(self, plan: Plan | None) -> Plan | None:
        if plan is not None:
            if getattr(self, "plan", None) is not plan:
                self.reader.control.store_plan(plan)
            self.plan = plan
            SessionSettings.from_json(plan.settings).set(self.spark)
            splits = plan.splits
            size_session(self.spark, table_files=splits.data_files, work_bytes=min(splits.bytes, self.round_bytes))
            assert_safe(self.spark)
        return plan

    @cached_property
    def _watcher(self) -> SourceWatch:
        return watch_source(self.plan, self.spark)

    @cached_property
    def _rounds(self) -> Rounds:
        return rounds(self.spark, self.plan, self.target, self.reader)

    # --- writing ---

    def _write_plan(self, plan: Plan) -> fx.CommitOutcome:
        txn = apply.Txn(app_id(plan.build), 1)
        text = self.reader.control.enclosures.enclosed(plan.encode())
        return self._attempted(lambda: apply.empty(self.spark, self.target, txn, text))

    def _write(self, write: fx.CommitRecord) -> fx.CommitOutcome:
        record = write.record
        txn, text = apply.Txn(record.app_id, record.seq), self.reader.control.enclosures.enclosed(record.encode())
        log.info("%s: seq %d of %s", _name(record), record.seq, record.app_id)
        outcome = self._attempted(lambda: self._commit(write, txn, text))
        if outcome == fx.CommitOutcome() and isinstance(write.work, fx.ApplyEpochs):
            compact(self.spark, self.reader)
        if outcome == fx.CommitOutcome() and isinstance(record, Record) and record.event is Event.CERTIFY:
            self.forget_parts()
        return outcome

    def forget_parts(self) -> None:
        """Remove what is stored of a proof that has ended: the next one reads every file, which may be lost since.
        What a verification that has not ended has stored stays.
        """
        try:
            state = self.reader.told()
            if state.phase is not Phase.CATCH_UP or state.certificate is not None:
                self.reader.control.remove_parts()
        except BackfillError as error:
            log.warning("parts of the proof are left beside the target: %s", error)

    def _commit(self, write: fx.CommitRecord, txn: apply.Txn, text: str) -> None:
        record, work = write.record, write.work
        if isinstance(work, fx.Nothing):
            apply.empty(self.spark, self.target, txn, text)
            return
        assert isinstance(record, Record)
        if isinstance(work, fx.RewriteKeys):
            proof = self._rounds.proof(record.positions)
            with rewrites(proof, work.epoch, record.prev) as rows:
                apply.rewrite(rows, self.target, proof.key or (), txn, text)
            return
        self._rounds.write(work, record, txn, text)

    def _attempted(self, commit: Any) -> fx.CommitOutcome:
        """Commit, and return what the client was told about it."""
        crash_point("before_commit")
        try:
            commit()
        except BackfillError as error:
            return fx.CommitOutcome(error=self._coded(error))
        except Exception as error:
            conflict = conflict_of(error)
            if conflict is not None:
                log.warning("another writer's commit came first: %s", conflict)
                return fx.CommitOutcome(conflict=conflict)
            failure = self._coded(error)
            log.error("the commit failed: %s", failure, exc_info=not redacts())
            return fx.CommitOutcome(error=failure)
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


def _seals(effect: fx.Effect[Any]) -> bool:
    """Whether the snapshot ends with this effect."""
    return (
        isinstance(effect, fx.CommitRecord) and isinstance(effect.record, Record) and effect.record.event is Event.SEAL
    )


def _ended(why: str) -> BackfillError:
    """The error of a round that was stopped."""
    if why == SUPERSEDED:
        return Fenced("Airflow has started a newer attempt for the same task; this one ends without another commit")
    return Interrupted(why)


def _long(effect: fx.Effect[Any]) -> bool:
    """Whether the effect may take long, so that commands can interrupt it."""
    match effect:
        case fx.CommitRecord(_, work):
            return not isinstance(work, fx.Nothing) or _seals(effect)
        case fx.NextChunk() | fx.ReadLanded() | fx.FetchRecords() | fx.DecodeRecords() | fx.VerifyTarget():
            return True
        case _:
            return False
