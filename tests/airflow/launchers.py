"""Launchers for ``submit=``: they run the applications that need no Spark, well or badly."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from airflow.sdk import BaseOperator
from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.ledger.control_folder import ControlFolder
from airflow_backfill.operators.launch import Launch
from tests.airflow.without_spark import main


class RunHere(BaseOperator):
    """Runs an application in the task's own process."""

    template_fields = ()

    def __init__(self, *, launch: Launch, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.launch = launch

    def execute(self, context: Any) -> None:
        main(Path(self.launch.application).stem, list(self.launch.arguments))


def run_here(launch: Launch) -> RunHere:
    """A launcher for ``submit=``."""
    return RunHere(task_id=launch.task_id.rpartition(".")[2], launch=launch)


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


def run_later(launch: Launch) -> RunLater:
    return RunLater(task_id=launch.task_id.rpartition(".")[2], launch=launch)


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


def dies(launch: Launch) -> Dies:
    return Dies(task_id="dies", launch=launch)


def loses_touch(launch: Launch) -> LosesTouch:
    return LosesTouch(task_id="loses_touch", launch=launch)


class Fails(RunHere):
    """Leaves the outcome of an attempt that a newer one has fenced."""

    def execute(self, context: Any) -> None:
        words = dict(zip(self.launch.arguments, self.launch.arguments[1:], strict=False))
        me = Attempt(int(words["--generation"]), words["--attempt"])
        outcome = {"code": "FENCED", "message": "taken over", "retry": False, "data": {"by": "another"}}
        ControlFolder.beside(words["--target"]).store_outcome(me, outcome)


def fails(launch: Launch) -> Fails:
    return Fails(task_id="fails", launch=launch)


def told(launch: Launch) -> RunHere:
    """Writes down what a launcher is told."""
    words = dict(zip(launch.arguments, launch.arguments[1:], strict=False))
    facts = {"application": launch.application, "py_files": launch.py_files, "conf": dict(launch.conf)}
    Path(words["--target"]).with_name(f"launch-{launch.task_id}.json").write_text(json.dumps(facts))
    return run_here(launch)
