"""The process of a task is killed, and Airflow never starts the task again: its application ends within seconds."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from threading import Event

import pytest

from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.ledger.control_folder import ControlFolder
from airflow_backfill.ledger.process import TASK, named
from airflow_backfill.ledger.reader import BuildReader
from tests.system.applications import Applications
from tests.system.workload import Workload

pytestmark = [pytest.mark.spark, pytest.mark.soak]

BOUND = 30.0
"""Seconds: two for a look, the rest for Spark to stop on a busy machine."""


def test_an_application_ends_with_its_task(workload: Workload, tmp_path: Path) -> None:
    target = str(tmp_path / "target")
    apps = Applications(target)
    apps.result("plan", "--spec", workload.spec(target))
    reader = BuildReader(target)
    reader.control.order(reader.state().plan.build, Command(Verb.PAUSE))  # otherwise it would not wait for ever
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as task:
        apps.environment = {TASK: named(task.pid) or ""}
        with apps.running("snapshot") as me:
            control = ControlFolder.beside(target)
            pause, tries = Event(), 600
            while control.announced(me) is None or reader.state().control.number == 0:
                tries -= 1
                assert tries and not pause.wait(0.2)
            task.kill()
            killed = time.monotonic()
    assert time.monotonic() - killed < BOUND
    outcome = control.outcome(me)
    assert outcome is not None and outcome["code"] == "APPLICATION_FAILED", (outcome, apps.log[-1][-2000:])
    assert "the task that waited for this application has ended" in apps.log[-1]
