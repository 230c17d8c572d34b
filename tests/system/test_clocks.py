"""Whole builds on machines with wrong clocks: rows are right, nothing hangs, status tells whose clock differs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from airflow_backfill.builds import status as told
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.ledger.reader import BuildReader
from tests.system.applications import Applications
from tests.system.s3 import s3
from tests.system.shifted_clock import HOUR, ShiftedClock
from tests.system.workload import Workload

pytestmark = [
    pytest.mark.spark,
    pytest.mark.soak,
    pytest.mark.skipif(not ShiftedClock.possible(), reason="no C compiler"),
]

LAG = ("--max-lag-seconds", "20")
SMALL = ("--round-rows", "2000")
REST = ("--then", f"catch_up {' '.join(LAG)}", "--then", "verify", "--then", "finish")


def looked_at(target: str) -> dict[str, Any]:
    """The status, which holds no time that cannot be."""
    found = told.status(target)
    print(told.as_text(found))
    figures = {**(found.get("lag") or {}), "left": found.get("seconds_left"), "speed": found.get("rows_per_second")}
    assert all(figure is None or figure >= 0 for figure in figures.values()), figures
    assert not found["health"]["needs_attention"], found["health"]
    return found


def until(committed: int, target: str) -> None:
    """Wait until so many versions of the target are there."""
    reader, pause, tries = BuildReader(target), Event(), 600
    while reader.log.head() < committed:
        tries -= 1
        assert tries and not pause.wait(0.1)


READS = "from airflow_backfill.ledger.open_store import open_store as o; print(o('s3a://lake/x').list(''))"


def test_s3_refuses_readers_with_a_wrong_clock_and_the_error_says_why(tmp_path: Path) -> None:
    with s3(tmp_path / "s3") as service:
        for ahead, said in ((0, "[]"), (HOUR, "its clock is wrong")):
            clock = ShiftedClock(tmp_path / "clock", ahead)
            environment = {**os.environ, **service.environment, **clock.environment}
            read = subprocess.run([sys.executable, "-c", READS], env=environment, capture_output=True, text=True)
            assert said in read.stdout + read.stderr, read


@pytest.mark.parametrize(
    ("drivers", "writers", "doubt"),
    [
        (3, 0, "the clock of the driver of attempt 2 (snapshot) is at least 3.0 hours ahead"),
        (-3, 0, "the clock of the driver of attempt 2 (snapshot) is at least "),
        (0, 3, "the clock of the source's writers is at least "),
        (0, -3, None),
    ],
    ids=["drivers ahead", "drivers behind", "writers ahead", "writers behind"],
)
def test_a_build_whose_clocks_are_hours_apart(
    workload: Workload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drivers: int, writers: int, doubt: str | None
) -> None:
    target = str(tmp_path / "target")
    apps = Applications(target, environment=ShiftedClock(tmp_path / "drivers", drivers * HOUR).environment)
    for name, value in ShiftedClock(tmp_path / "writers", writers * HOUR).environment.items():
        monkeypatch.setenv(name, value)
    with workload.writer(rate=2.0):
        for name in ("LD_PRELOAD", "CLOCK_SHIFT"):
            monkeypatch.delenv(name)
        planned = apps.result("plan", "--spec", workload.spec(target))
        with apps.running("snapshot", *SMALL):
            until(4, target)
            workload.wait_for_epochs(planned["snapshot_epoch"], 1)
            found = looked_at(target)
        assert doubt is None or any(doubt in one for one in found["clocks"]), found["clocks"]
        assert found["attempts"][-1]["life"] in ("running", "ended")
        workload.wait_for_epochs(planned["snapshot_epoch"], 10)
        finished = apps.result("consume_log", *LAG, *REST)
        followed = apps.result("upstream")
        looked_at(target)
    assert finished["phase"] == "finished" and followed["epoch"] > finished["epoch"]
    workload.check(target, finished["epoch"], finished["target_version"])
    workload.check(target, followed["epoch"], followed["target_version"])


def test_a_clock_that_is_set_back_between_two_rounds(workload: Workload, tmp_path: Path) -> None:
    target, clock = str(tmp_path / "target"), ShiftedClock(tmp_path / "clock")
    apps = Applications(target, environment=clock.environment)
    with workload.writer(rate=2.0):
        planned = apps.result("plan", "--spec", workload.spec(target))
        reader = BuildReader(target)
        reader.control.order(reader.state().plan.build, Command(Verb.THROTTLE, rate=2_000))
        with apps.running("snapshot", *SMALL):
            until(4, target)
            clock.set(-HOUR)
            until(6, target)
            looked_at(target)
        workload.wait_for_epochs(planned["snapshot_epoch"], 10)
        reader.control.order(reader.state().plan.build, Command(Verb.THROTTLE))
        with apps.running("consume_log", *LAG, *REST):
            until(reader.log.head() + 2, target)
            clock.set(-2 * HOUR)
        looked_at(target)
        followed = apps.result("upstream")
    workload.check(target, followed["epoch"], followed["target_version"])
