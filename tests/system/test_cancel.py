"""Cancelling from the command line while an application works: it ends, the build is gone or goes on, as was asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.core.values.phase import Phase
from airflow_backfill.ledger.control_folder import ControlFolder
from airflow_backfill.ledger.reader import BuildReader
from tests.spark.build import Build
from tests.spark.history import PLAIN, Source, create
from tests.system.applications import Applications, table_backfill
from tests.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def source(spark: SparkSession, tmp_path: Path) -> Source:
    made = Source(spark, str(tmp_path / "source"), PLAIN)
    create(made)
    return made


@pytest.mark.soak
def test_a_running_snapshot_is_cancelled_dropped_and_planned_anew(source: Source, tmp_path: Path) -> None:
    target = str(tmp_path / "target")
    apps = Applications(target)
    before = {path.name for path in Path(source.path).rglob("*")}
    planned = Build(source, Path(target)).plan().plan.build
    control = ControlFolder.beside(target)
    control.order(planned, Command(Verb.THROTTLE, rate=1))
    me = control.draw_attempt({"task": "snapshot"}, floor=0)
    with apps.process("snapshot", me, "--round-rows", "1") as running:
        until(lambda: BuildReader(target).state().totals.snapshot_rows > 0)
        table_backfill("cancel", target, "--drop", "--why", "a test", conf=apps.confs())
        running.communicate(timeout=120)
    outcome = control.outcome(me)
    assert outcome is not None and outcome["code"] == "CANCELLED"
    assert not Path(target).exists()
    assert {path.name for path in Path(source.path).rglob("*")} == before, "the source was touched"

    assert Build(source, Path(target)).plan().plan.build != planned
    assert BuildReader(target).state().phase is Phase.SNAPSHOT
