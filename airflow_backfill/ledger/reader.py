"""A build's committed state, read without a JVM: for operators, sensors, triggers and the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from airflow_backfill.core.attempts.settle_plan import is_of_table, plan_in
from airflow_backfill.core.errors import BackfillError, HistoryLost, NotPlanned, RecordInvalid, TargetDiverged
from airflow_backfill.core.model.plan import Plan
from airflow_backfill.core.state import effect as fx
from airflow_backfill.core.state.drive import drive
from airflow_backfill.core.state.load import highest_generation, load, told
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.target_table.foreign_commits import another_table
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.commit import Commit
from airflow_backfill.core.values.control import Command
from airflow_backfill.core.values.options import invalid
from airflow_backfill.core.values.retention import Retention
from airflow_backfill.ledger.admission import OWNER
from airflow_backfill.ledger.control_folder import ControlFolder
from airflow_backfill.ledger.delta_log import Newest
from airflow_backfill.ledger.enclosures import TargetLog
from airflow_backfill.ledger.features import check_readable
from airflow_backfill.ledger.open_store import StoreOptions, open_store
from airflow_backfill.ledger.read_ahead import ReadAhead

_Result = TypeVar("_Result")


class BuildReader:
    """Reads one target. Caches the plan, which never changes, the properties until a commit changes them, whether
    maintenance is of this table, and the last state until another commit is the newest. ``values``: as of
    ``ControlFolder``.
    """

    def __init__(self, target: str, spark: Any = None, options: StoreOptions = None, *, values: bool = True) -> None:
        self.target = target
        self.options = options
        self.control = ControlFolder.beside(target, spark, options, values=values)
        self.log = TargetLog(open_store(target, spark=spark, options=options), self.control.enclosures)
        self._plans: dict[str, Plan] = {}
        self._properties: Mapping[str, str] | None = None
        self._strays: dict[tuple[int, str], bool] = {}
        self._last: tuple[Newest, BuildState] | None = None
        self._commits = ReadAhead(self.log)

    @staticmethod
    def of(target: str | BuildReader) -> BuildReader:
        """The reader of a target; a reader is its own."""
        return target if isinstance(target, BuildReader) else BuildReader(target)

    def state(self, build: str | None = None) -> BuildState:
        """The committed state of the target's build. NotPlanned if it has none; TargetDiverged after foreign writes.

        Costs two requests while no commit is added.
        """
        if build is not None and not (isinstance(build, str) and build):
            raise invalid("build", build, "must be the id of a build; if a template names it, that found no value")
        newest = self.check_ours()
        last = self._last
        if last is None or newest.mark is None or last[0] is not newest or build not in (None, last[1].plan.build):
            last = self._last = newest, drive(load(build), lambda effect: self._answer_at(newest.version, effect))
        return last[1]

    def told(self) -> BuildState:
        """The state by the newest record alone, to be shown: no commit of another lane is read or checked."""
        head = self.check_ours().version
        return drive(told(), lambda effect: self._answer_at(head, effect))

    def _answer_at(self, head: int, effect: fx.Effect[Any]) -> Any:
        if isinstance(effect, fx.ReadHead):
            self._commits.forget()
            return head
        return self.answer(effect)

    def check_ours(self) -> Newest:
        """The target's newest version; NotPlanned unless a table backfill made the target: nothing is written beside
        other tables.
        """
        newest = self.log.newest()
        check_readable(newest.protocol, f"the target {self.target}")
        self._properties = newest.metadata.configuration
        if OWNER not in newest.metadata.configuration:
            raise self._not_ours(newest)
        return newest

    def _not_ours(self, newest: Newest) -> BackfillError:
        """Why the table is none of a build; TargetDiverged if another writer has replaced that of the build."""
        names = {plan.target_id: plan.spec.name for plan in self.control.plans}
        if names and newest.metadata.table_id not in names:
            try:
                drive(load(), lambda effect: self._answer_at(newest.version, effect))
            except BackfillError as error:
                if error.retry or isinstance(error, TargetDiverged):
                    return error
            return another_table(self.target)
        name = names.get(newest.metadata.table_id)
        return NotPlanned(
            f"target: {self.target} was not made by a table backfill: its property {OWNER} is not set. Name the target "
            "of a build. If this is one, another writer removed the property: run ALTER TABLE "
            f"delta.`{self.target}` SET TBLPROPERTIES ('{OWNER}' = '{name or 'NAME'}')"
            f"{'' if name else ' with the name of the build'}, then clear the task"
        )

    def answer(self, effect: fx.Effect[Any]) -> Any:
        """The answer to an effect that only reads the target."""
        match effect:
            case fx.ReadHead():
                self._commits.forget()
                return self.log.head()
            case fx.ReadCommit(version):
                commit = self._commits.read(version)
                if commit.metadata is not None:
                    self._properties = None
                return commit if commit.rewritten is None else self._maintenance(commit, commit.rewritten)
            case fx.ReadPlan(build):
                return self.plan(build)
            case fx.ReadCost():
                return self.control.cost()
            case _:
                raise TypeError(f"not an effect that reads a build: {effect}")

    def _maintenance(self, commit: Commit, file: str) -> Commit:
        """The commit, which rewrites ``file``; whether the table had that is searched once."""
        known = commit.version, file
        if known not in self._strays:
            self._strays[known] = not self.log.had(file.rpartition("/")[2], commit.version)
        return replace(commit, strays=self._strays[known])

    @property
    def properties(self) -> Mapping[str, str]:
        """The target's table properties, as of the newest commit that was read."""
        if self._properties is None:
            _, metadata = self.log.protocol_and_metadata()
            self._properties = metadata.configuration
        return self._properties

    def plan(self, build: str) -> Plan | None:
        """The build's plan, for this location: the copy beside the target, else the record in the log; None if both are
        missing.
        """
        if build not in self._plans:
            try:
                found = self.control.plan(build)
            except RecordInvalid:
                found = None
            if found is None or found.build != build:
                found = self._plan_in_log(build)
            if found is None:
                return None
            self._plans[build] = found.at(self.target)
        return self._plans[build]

    def _plan_in_log(self, build: str) -> Plan | None:
        for version in range(self.log.head(), -1, -1):
            try:
                commit = self.log.read(version)
            except HistoryLost:
                return None
            except RecordInvalid:
                continue  # the plan may be in an older commit
            plan = plan_in(commit, build)
            if plan is not None and drive(is_of_table(plan, version), self.answer):
                return plan
        return None

    def draw_attempt(self, document: Mapping[str, Any]) -> Attempt:
        """A new attempt, newer than all in the control folder and in the target's log."""
        return self.control.draw_attempt(document, self._highest_generation())

    def _highest_generation(self) -> int:
        try:
            _, metadata = self.log.protocol_and_metadata()
        except NotPlanned:
            return 0
        except (HistoryLost, RecordInvalid):
            pass  # the records may be readable all the same
        else:
            if OWNER not in metadata.configuration:
                return 0
        return drive(highest_generation(), self.answer)

    def aging(self, state: BuildState, now: int) -> bool:
        """Whether a third of the target's log retention has passed since the newest record, ``now`` in milliseconds.
        Then the record has to be renewed: log clean-up would delete the records of a build that rests for weeks.
        """
        last = self._last
        metadata = (last[0] if last is not None and last[1] is state else self.log.newest()).metadata
        return state.newest is not None and now - state.newest.at > Retention.of(metadata.configuration).log // 3

    def commands(self, build: str) -> Sequence[tuple[int, Command]]:
        return self.control.commands(build)
