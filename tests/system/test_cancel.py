"""Cancelling from the command line while an application works: it ends, the build is gone or goes on, as was asked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_backfill.core.control import Command, Verb
from airflow_backfill.core.phase import Phase
from airflow_backfill.ledger.control_folder import ControlFolder
from airflow_backfill.ledger.reader import BuildReader
from tests.spark.conftest import PLAIN
from tests.spark.history import Source, create
from tests.system.applications import ROOT, Applications

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def source(spark: SparkSession, tmp_path: Path) -> Source:
    made = Source(spark, str(tmp_path / "source"), PLAIN)
    create(made)
    return made


def table_backfill(*words: str, conf: Mapping[str, str]) -> dict[str, Any]:
    """What the command line answers."""
    command = [str(Path(sys.executable).parent / "table-backfill"), *words, "--json"]
    settings = [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run([*command, *settings], env=environment, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_a_running_snapshot_is_cancelled_dropped_and_planned_anew(source: Source, tmp_path: Path) -> None:
    target = str(tmp_path / "target")
    apps = Applications(target)
    before = {path.name for path in Path(source.path).rglob("*")}
    spec = json.dumps({"name": "t", "source": source.path, "target": target, "key": ["id"]})
    planned = apps.result("plan", "--spec", spec)
    control = ControlFolder.beside(target)
    control.order(planned["build"], Command(Verb.THROTTLE, rate=1))
    me = control.draw_attempt({"task": "snapshot"})
    with apps.process("snapshot", me, "--round-rows", "1") as running:
        _wait_until(lambda: BuildReader(target).state().totals.snapshot_rows > 0)
        table_backfill("cancel", target, "--drop", conf=apps.confs())
        running.communicate(timeout=120)
    outcome = control.outcome(me)
    assert outcome is not None and outcome["code"] == "CANCELLED"
    assert not Path(target).exists()
    assert {path.name for path in Path(source.path).rglob("*")} == before, "the source was touched"

    again = apps.result("plan", "--spec", spec)
    assert again["build"] != planned["build"]
    assert BuildReader(target).state().phase is Phase.SNAPSHOT


def _wait_until(happened: Any, seconds: float = 120) -> None:
    pause = Event()
    for _ in range(int(seconds / 0.2)):
        if happened():
            return
        pause.wait(0.2)
    raise AssertionError("it did not happen")
