"""Plans a build: checks, creates the target, and settles the plan; or returns the existing build."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

from airflow_backfill.core.attempts.attempt import run
from airflow_backfill.core.attempts.goals import CancelGoal, ResumeGoal, TakeOverGoal
from airflow_backfill.core.attempts.settle_plan import check_same, settle
from airflow_backfill.core.errors import (
    BackfillError,
    Fenced,
    KeyInvalid,
    NotAllowedNow,
    NotPlanned,
    TargetExists,
    UnsafeOption,
)
from airflow_backfill.core.model.plan import Plan, build_id
from airflow_backfill.core.model.registry import AUTO, registered
from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.core.reports.forecast import Work, forecast, report
from airflow_backfill.core.reports.recommend import Advice, Sighted, recommend
from airflow_backfill.core.reports.speeds import Speeds
from airflow_backfill.core.splits.splits import Splits
from airflow_backfill.core.state.load import load
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.strategies.strategy import check_lanes
from airflow_backfill.core.target_table.rules import APPEND_ONLY, TXN_RETENTION, check_rules
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.control import Command, Verb, obey
from airflow_backfill.core.values.phase import Phase
from airflow_backfill.core.values.round_size import RoundSize
from airflow_backfill.ledger.admission import OWNER, admit_target
from airflow_backfill.ledger.clock import now_ms
from airflow_backfill.ledger.control_folder import TRIAL, location_beside
from airflow_backfill.ledger.delta_log import DeltaLog
from airflow_backfill.ledger.location import Location
from airflow_backfill.ledger.open_store import open_store
from airflow_backfill.spark.open_source import open_source
from airflow_backfill.spark.preflight.shared_folder import check_shared
from airflow_backfill.spark.preflight.table import Preflight, inspect_source
from airflow_backfill.spark.preflight.target import (
    check_clustered,
    check_columns,
    check_names,
    check_partitions,
    inspect_target,
)
from airflow_backfill.spark.preflight.topic import inspect_topic
from airflow_backfill.spark.preflight.two_writers import commit_guarantee
from airflow_backfill.spark.run.calibration import calibrated
from airflow_backfill.spark.run.interpreter import Shell
from airflow_backfill.spark.session.creation import create_table
from airflow_backfill.spark.session.crowding import crowding, pace
from airflow_backfill.spark.session.failure import coded, refused_by_defaults
from airflow_backfill.spark.session.interrupting import CHECK_SECONDS
from airflow_backfill.spark.session.lost_file import newest_read
from airflow_backfill.spark.session.removal import drop_target, remove, table_at
from airflow_backfill.spark.session.settings import TABLE_DEFAULTS, SessionSettings, cluster_cores, table_defaults
from airflow_backfill.spark.strategies.arrangement import key_ranges
from airflow_backfill.spark.strategies.strategy import SPLITS, Cut, Preparation, preparation
from airflow_backfill.spark.target_table.clustering import WITH_STATISTICS, clustering_columns
from airflow_backfill.spark.target_table.compaction import ASKED
from airflow_backfill.spark.transform.transform import types_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_ODD = set(" ,;{}()\n\t=")


class OnExisting(str, Enum):
    """What to do if the target already holds a build."""

    RESUME = "resume"
    FAIL = "fail"
    RESTART = "restart"


class Planner:
    """Plans the build of ``spec`` in one Spark session."""

    measured_from = 600.0
    """Expected seconds of the snapshot from which speeds are measured on a sample, which takes up to a minute."""

    def __init__(
        self, spark: SparkSession, spec: BackfillSpec, lanes: int, me: Attempt, size: RoundSize | None = None
    ) -> None:
        self._spark, self._spec, self._lanes, self._me = spark, spec, lanes, me
        self._size = size or RoundSize()
        self._shell = Shell(spark, spec.target)
        self._settings = SessionSettings.read(spark)
        self._settings.set(spark)
        self._dropped = False

    def plan(self, on_existing: OnExisting) -> tuple[BuildState, dict[str, Any]]:
        """The build's state, and the plan's report. A restart that cannot be planned leaves the build that is there."""
        guarantee = commit_guarantee(self._spark, self._spec.target)
        asked, ready = self._spec, None
        if on_existing is OnExisting.RESTART:
            ready = self._ready(self._check_names)
            found, _, preparation, _ = ready
            self._drop(found, preparation)
            self._settings.set(self._spark)  # and not those of the plan that was dropped
        existing = self._existing()
        if existing is not None and on_existing is OnExisting.FAIL:
            raise TargetExists(
                f"target: {self._spec.target} already holds build {existing.plan.build}, and on_existing is 'fail'; "
                "set on_existing to 'resume' or 'restart', or name another target",
                build=existing.plan.build,
            )
        if existing is not None:
            check_same(existing.plan.spec, asked)
            check_rules(existing.plan, existing.phase, self._shell.reader.properties)
            return self._revived(existing), {"existing": True, "commit_guarantee": guarantee}
        found, advice, preparation, cut = ready or self._ready(self._check_columns)
        self._make_target(found, preparation)
        draft = self._draft(found, cut.splits)
        check_rules(draft, Phase.SNAPSHOT, self._shell.reader.properties)
        draft = preparation.with_memory(draft, found)
        plan = self._shell.run(settle(draft, now_ms(), asked))
        state = self._shell.run(load(plan.build))
        report = self._report(plan, found, guarantee, cut, advice)
        self._shell.reader.control.store_report(plan.build, report)
        return state, report

    def _ready(
        self, check_target: Callable[[Preflight], None]
    ) -> tuple[Preflight, Advice | BackfillError, Preparation, Cut]:
        """Everything that may refuse a plan, checked before the target is touched; and what the plan is made of.

        Raises SourceUnavailable if files are deleted meanwhile that the source no longer needs.
        """
        self._check_lanes()
        self._check_defaults()
        check_shared(self._spark, self._spec.target)
        with newest_read(self._spec.source, self._spark):
            found, advice = self._inspected()
            check_target(found)
            self._choose(advice)
            preparation = self._preparation()
            return found, advice, preparation, preparation.cut(found)

    def _inspected(self, begins: Callable[[str], None] = lambda step: None) -> tuple[Preflight, Advice | BackfillError]:
        """The source, and the strategy that fits it."""
        topic = self._spec.topic
        if topic is not None:
            return inspect_topic(self._spark, self._spec, topic), Advice("source", registered("source").why)
        found = inspect_source(self._spark, self._spec, begins)
        return found, recommend(self._sighted(found))

    def _choose(self, advice: Advice | BackfillError) -> str:
        """The strategy of the build; the error of an unfit source if it is to be chosen."""
        if self._spec.strategy == AUTO:
            if isinstance(advice, BackfillError):
                raise advice
            self._spec = self._spec.with_strategy(advice.strategy)
            self._check_lanes()
        return self._spec.strategy

    def _check_columns(self, found: Preflight) -> None:
        """InvalidExpression if no target holds the build's rows; TargetRefuses if there is one, without a build, that
        does not.
        """
        self._check_names(found)
        metadata = inspect_target(self._spark, self._spec)
        if metadata is not None:
            check_columns(self._spec, metadata, found.transform, found.target_key)
            if self._spec.topic is None:
                rows = found.transform.apply(open_source(self._spark, self._spec.table).at(found.epoch))
                check_partitions(self._spec, metadata, rows)

    def _check_names(self, found: Preflight) -> None:
        check_names(found.transform, found.target_key)

    def _preparation(self) -> Preparation:
        return preparation(self._spark, self._spec, self._lanes, self._size)

    def _check_lanes(self) -> None:
        if self._spec.strategy != AUTO:
            check_lanes(self._spec, self._lanes)

    def _drop(self, found: Preflight, preparation: Preparation) -> None:
        """Remove the existing build, even if its records are damaged, provided that Delta creates another such target.
        Running attempts are fenced first, if the log allows it.
        """
        dropping, table = self._shell.reader.control.dropping, table_at(self._spark, self._spec.target)
        if not dropping and inspect_target(self._spark, self._spec) is None:
            return
        trial = f"{location_beside(self._spec.target)}/{TRIAL}/{self._me.name}"
        try:
            self._make_target(found, preparation, trial)
            admit_target(DeltaLog(open_store(trial, spark=self._spark)), self._spec)
        finally:
            remove(self._spark, trial)
        if dropping or self._ended():
            self._stop_attempts(table)
            drop_target(self._spark, self._spec.target, table)
            self._dropped = True

    def _ended(self) -> bool:
        """Fence the running attempts of the existing build, if the log allows it. False if there is no build."""
        try:
            try:
                self._shell.run(run(CancelGoal(), self._me))
            except NotAllowedNow:
                # The build is finished; an upstream task may be running.
                self._shell.run(run(TakeOverGoal(), self._me))
        except NotPlanned:
            return False
        except BackfillError as error:
            if error.retry or isinstance(error, Fenced):
                raise
            log.warning("the build cannot be cancelled first; it is dropped anyway: %s", error)
        return True

    def _stop_attempts(self, table: str | None) -> None:
        """Order attempts at the build of ``table`` that still run to end. Where no lock keeps them out, they get time
        for it: one in the middle of a round could commit to the next table, if that has as many commits by then.
        """
        if table is not None:
            self._shell.reader.control.order(build_id(table, self._spec.name), Command(Verb.CANCEL))
        if not Location.parse(self._spec.target).local:
            time.sleep(3 * CHECK_SECONDS)

    def _existing(self) -> BuildState | None:
        """The build that the target holds; InvalidSpec or TargetExists if it holds none, and this one cannot be planned
        there.
        """
        metadata = inspect_target(self._spark, self._spec, dropped=self._dropped)
        if metadata is None:
            return None
        try:
            return self._shell.run(load())
        except NotPlanned:
            check_clustered(self._spark, self._spec, metadata)
            self._empty_through(self._shell.reader.log.head())
            return None

    def _revived(self, state: BuildState) -> BuildState:
        """The build, resumed if it was cancelled: planning again lifts a cancel."""
        commands = self._shell.reader.commands(state.plan.build)
        if state.phase is Phase.CANCELLED or obey(state.control, commands).cancelled:
            number = max((n for n, _ in commands), default=0)
            return self._shell.run(run(ResumeGoal(number), self._me))
        return state

    def _make_target(self, found: Preflight, preparation: Preparation, location: str | None = None) -> None:
        """Create the target, or a table like it at another ``location``, if it is missing. UnsafeOption if Delta cannot
        because of what the session gives to new tables.
        """
        # The source may drop NOT NULL later.
        schema = found.transform.schema.toNullable()
        properties = {
            OWNER: self._spec.name,
            "delta.enableDeletionVectors": "true",
            **preparation.properties(),
        }
        # A MERGE skips files of the target by statistics on the key.
        skipping = [k for k in found.target_key if isinstance(found.transform.schema[k].dataType, WITH_STATISTICS)]
        if skipping:
            properties["delta.dataSkippingStatsColumns"] = ",".join(f"`{k.replace('`', '``')}`" for k in skipping)
        clustered = self._spec.clustering == "key"
        if clustered:
            properties[ASKED] = "true"
        if any(
            set(field.name) & _ODD for struct in types_in(schema) if isinstance(struct, StructType) for field in struct
        ):
            properties["delta.columnMapping.mode"] = "name"
        columns = clustering_columns(found.target_key, schema) if clustered else []
        target = location or self._spec.target
        try:
            create_table(self._spark, target, schema, properties, columns, dropped=self._dropped)
        except Exception as error:
            refused = refused_by_defaults(error, table_defaults(self._spark))
            if refused is None:
                raise
            raise refused from error

    def _check_defaults(self) -> None:
        """UnsafeOption if the session gives every new table a property that a build cannot work with."""
        for name in (TXN_RETENTION, APPEND_ONLY):
            setting = TABLE_DEFAULTS + name.removeprefix("delta.")
            value = self._spark.conf.get(setting, None)
            if value is not None and value.lower() != "false":
                raise UnsafeOption(
                    f"{setting} = {value} would set {name} on the target, and no build can work with that property; "
                    "remove the setting from the application or the cluster, then clear the task",
                    option=setting,
                )

    def _draft(self, found: Preflight, splits: Splits) -> Plan:
        head = self._shell.reader.log.head()
        _, metadata = self._shell.reader.log.protocol_and_metadata()
        return Plan(
            build=build_id(metadata.table_id, self._spec.name),
            spec=self._spec,
            target_id=metadata.table_id,
            target_schema_json=metadata.schema_json,
            target_version=self._empty_through(head),
            source=found.source,
            splits=splits,
            lanes=self._lanes,
            settings=self._settings.to_json(),
            made=(self._spec.target,),
        )

    def _sighted(self, found: Preflight) -> Sighted:
        """What the choice of a strategy depends on."""
        expected = forecast(self._work(found), found.recent, found.at, found.retention)["expected_seconds"]
        try:
            ordered = bool(key_ranges(self._spark, found))
        except KeyInvalid:
            ordered = False
        return Sighted(
            feed=found.source.feed,
            key=bool(self._spec.key),
            ordered=ordered,
            only_adds=all(epoch.only_adds for epoch in found.recent),
            seconds=None if expected["log"] is None else expected["snapshot"] + expected["log"],
            kept=found.retention.shorter / 1000,
            often=lambda: key_ranges(self._spark, found).plan(found.epoch, SPLITS, self._size.bytes)[1],
        )

    def _measured(self, found: Preflight, work: Work) -> Speeds:
        """Speeds for the report: those of the work, or measured ones."""
        if self._spec.topic is not None or work.seconds < self.measured_from:
            return work.speeds
        try:
            return calibrated(self._spark, found)
        except Exception as error:
            log.warning("the speed cannot be measured, so the usual one is taken: %s", coded(error))
            return work.speeds

    def _work(self, found: Preflight) -> Work:
        """The work of reading the source once, at usual speeds."""
        keys = found.rows if found.files and self._spec.key else None  # those that were counted
        slow = crowding(self._spark) * (1.0 if keys is None else pace(self._spark, keys, found.at))
        cores = cluster_cores(self._spark)
        speeds = Speeds.usual(cores).crowded(slow)
        planning = (now_ms() - found.at) / 1000
        return Work(
            found.parts, found.units, found.bytes, found.rows, self._size, speeds, planning=planning, cores=cores
        )

    def _empty_through(self, head: int) -> int:
        """The newest version before a plan is in the target's log. TargetExists if rows were written by then."""
        for version in range(head + 1):
            commit = self._shell.reader.log.read(version)
            if commit.data_change:
                raise TargetExists(
                    f"target: {self._spec.target} has no build, but rows were written to it (version {version}); name "
                    "another target, or move that table away",
                    target=self._spec.target,
                    version=version,
                )
            if commit.txns:
                return version - 1
        return head

    def _report(
        self,
        plan: Plan,
        found: Preflight,
        guarantee: str,
        cut: Cut,
        advice: Advice | BackfillError,
    ) -> dict[str, Any]:
        notes = list(cut.notes)
        if Location.parse(plan.spec.target).local and plan.lanes > 1:
            notes.append("lanes take turns: a target on file: has one writer at a time")
        splits, work = plan.splits, self._work(found)
        speeds = self._measured(found, work)
        # For ranges, rows were counted; files may have no counts.
        work = replace(work, bytes=splits.bytes, rows=splits.rows, often=cut.often, speeds=speeds)
        return report(plan, work, found.recent, found.at, found.retention, guarantee, notes, advice, found.expiry)
