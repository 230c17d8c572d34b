"""Builds whose tables are folders with real commit files, and no data: the core's own attempts, without Spark.

``JsonBuild`` takes a build wherever a test wants it (``sealed()``, ``caught_up()``, ``finished()``, or task by task)
and leaves a source, a target and a control folder that every reader takes for the real ones.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from airflow_backfill.core.attempts.goals import Goal
from airflow_backfill.core.errors import BackfillError
from airflow_backfill.core.model.plan import Plan
from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.core.reports.summary import summarize
from airflow_backfill.core.source.view import SourceView
from airflow_backfill.core.state import effect as fx
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.control import Command
from airflow_backfill.ledger.admission import OWNER
from airflow_backfill.ledger.log_listing import commit_name
from airflow_backfill.ledger.open_source import watch_source
from airflow_backfill.ledger.reader import BuildReader
from airflow_backfill.testing.applications import MADE
from airflow_backfill.testing.json_log import JsonLog
from tests.core.model_target import FILES, Model


class JsonBuild(Model):
    """A build in a folder: ``source``, ``target`` and ``target.backfill``. Time begins now, and is the model's."""

    def __init__(
        self, folder: Path, files: Sequence[fx.FileSize] = FILES, *, name: str = "orders", **model: Any
    ) -> None:
        self.folder = folder
        places = {"source": str(folder / "source"), "target": str(folder / "target")}
        spec = BackfillSpec.parse({"name": name, **places, "key": ["id"], **model.pop("more", {})})
        self.reader = BuildReader(spec.target)
        self.spec = spec
        super().__init__(files, spec=spec, now=time.time_ns() // 1_000_000, **model)

    def _source_log(self) -> JsonLog:
        return JsonLog(self.spec.source)

    def _target_log(self) -> JsonLog:
        return JsonLog(self.spec.target)

    def _target_properties(self) -> dict[str, str]:
        return {OWNER: self.spec.name, MADE: "true"}

    @property
    def location(self) -> str:
        """The target, as a command line or an operator is given it."""
        return self.spec.target

    def plan(self, lanes: int = 1) -> Plan:
        me = self._drawn("plan")
        plan = super().plan(lanes)
        self.reader.control.store_outcome(me, {"code": "OK", "result": summarize(self.state())})
        return plan

    def run(self, task: Goal, me: Attempt | None = None) -> BuildState:
        """An attempt from start to end, which leaves its outcome behind as the applications do."""
        mine = me or self._drawn(type(task).__name__)
        try:
            state = super().run(task, mine)
        except BackfillError as error:
            self.reader.control.store_outcome(mine, error.to_json())
            raise
        self.reader.control.store_outcome(mine, {"code": "OK", "result": summarize(state)})
        return state

    def attempt(self) -> Attempt:
        return self._drawn("unknown")

    def _drawn(self, task: str) -> Attempt:
        return self.reader.draw_attempt({"task": task})

    def state(self) -> BuildState:
        return self.reader.state()

    def order(self, command: Command) -> int:
        return self.reader.control.order(self.draft().build, command)

    def view(self, after: int) -> SourceView:
        plan = self.reader.plan(self.draft().build)
        assert plan is not None
        return watch_source(plan).view(after)

    def _text(self, text: str) -> str:
        return self.reader.control.enclosures.enclosed(text)

    def answer(self, effect: fx.Effect) -> Any:
        match effect:
            case fx.ReadHead() | fx.ReadCommit() | fx.ReadPlan():
                self.effects.append(effect)
                return self.reader.answer(effect)
            case fx.ReadTransactions():
                _, metadata = self.reader.log.protocol_and_metadata()
                return fx.Transactions(metadata.table_id, dict(self._txns))
            case fx.CopyPlan(plan):
                self.stored_plan = plan
                return self.reader.control.store_plan(plan)
            case fx.ReadCommands(files):
                return fx.CommandsRead(self.now, self.reader.commands(self.draft().build), self.files if files else ())
            case _:
                return super().answer(effect)


def commit_file(table: str, version: int) -> Path:
    return Path(table, "_delta_log", commit_name(version))


def forget(log: JsonLog, table: str, *versions: int) -> None:
    """The log is cleaned up: these commits are gone, and a checksum says what they said of the table."""
    log.write_checksum()
    for version in versions:
        commit_file(table, version).unlink()
