"""Launchers for ``submit=`` that run the applications without Spark late, badly, or not at all."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_backfill.core.errors import BackfillError, ExecutorLost, Fenced, VerificationFailed
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.ledger.control_folder import ControlFolder
from airflow_backfill.operators.launch import Launch, Launcher
from airflow_backfill.testing.launcher import RunHere, run_here


class At(BaseTrigger):
    """Fires at once."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{__name__}.At", {}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        yield TriggerEvent("there")


class RunLater(RunHere):
    """Defers before it runs the application, as operators of clusters do."""

    def execute(self, context: Any) -> None:
        self.defer(trigger=At(), method_name="arrived")

    def arrived(self, context: Any, event: str) -> None:
        assert event == "there"
        super().execute(context)


class Dies(RunHere):
    """Ends at its first start without a word; where ``done`` says so, after the work was done."""

    done = False

    def execute(self, context: Any) -> None:
        if context["ti"].try_number > 1:
            super().execute(context)
        elif self.done:
            super().execute(context)
            raise RuntimeError("the connection to the cluster was lost")
        else:
            raise RuntimeError("the cluster is full")


class LosesTouch(Dies):
    done = True


class Fails(RunHere):
    """Leaves the outcome of an attempt that a newer one has fenced."""

    error: BackfillError = Fenced("taken over", by="another")

    def execute(self, context: Any) -> None:
        words = dict(zip(self.launch.arguments, self.launch.arguments[1:], strict=False))
        me = Attempt(int(words["--generation"]), words["--attempt"])
        ControlFolder.beside(words["--target"]).store_outcome(me, self.error.to_json())


class LosesExecutors(Fails):
    """Leaves the outcome of an attempt that lost its executors again and again."""

    error = ExecutorLost("the executor has ended")


class Differs(RunHere):
    """Finds that the copy differs, as long as there is a file ``<target>.differs``."""

    def execute(self, context: Any) -> None:
        words = dict(zip(self.launch.arguments, self.launch.arguments[1:], strict=False))
        if Path(self.launch.application).stem != "verify" or not Path(f"{words['--target']}.differs").exists():
            return super().execute(context)
        me = Attempt(int(words["--generation"]), words["--attempt"])
        sample = [{"kind": "stale", "key": {"id": "7"}}]
        outcome = VerificationFailed("1 key differs: id = 7", epoch=3, counts={"stale": 1}, sample=sample).to_json()
        return ControlFolder.beside(words["--target"]).store_outcome(me, outcome)


def _launching(kind: type[RunHere]) -> Launcher:
    return lambda launch: kind(task_id=launch.task_id.rpartition(".")[2], launch=launch)


run_later, dies, loses_touch, fails, differs = map(_launching, (RunLater, Dies, LosesTouch, Fails, Differs))
loses_executors = _launching(LosesExecutors)


def told(launch: Launch) -> RunHere:
    """Writes down what a launcher is told."""
    words = dict(zip(launch.arguments, launch.arguments[1:], strict=False))
    facts = {"application": launch.application, "py_files": launch.py_files, "conf": dict(launch.conf)}
    Path(words["--target"]).with_name(f"launch-{launch.task_id}.json").write_text(json.dumps(facts))
    return run_here(launch)
