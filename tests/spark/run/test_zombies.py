"""Attempts that sleep through their own replacement, on real tables: whatever they were about to write, nothing of it
is there twice, and the attempt that is known finishes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_backfill.core.attempts.attempt import run
from airflow_backfill.core.attempts.goals import ConsumeLogGoal, FinishGoal, Goal, SnapshotGoal, VerifyGoal
from airflow_backfill.core.errors import Fenced
from airflow_backfill.core.state import effect as fx
from airflow_backfill.core.values.phase import Event
from airflow_backfill.core.values.round_size import RoundSize
from airflow_backfill.spark.run.interpreter import Shell
from tests.spark.build import NONE, PATIENCE, Build, about_to
from tests.spark.history import Source

pytestmark = pytest.mark.spark


class Sleeper:
    """An attempt that falls asleep when it is about to write a barrier of this kind."""

    def __init__(self, build: Build, task: Goal, before: Event) -> None:
        self._shell = Shell(build.spark, build.target)
        self._attempt = run(task, build.attempt())
        self._next: fx.Effect = about_to(self._attempt, self._shell, lambda write: write.record.event is before)

    def wake(self) -> None:
        """Go on with exactly what was about to happen, until the attempt's error."""
        effect = self._next
        while True:
            effect = self._attempt.send(self._shell.answer(effect))


def snapshot(build: Build) -> Goal:
    return SnapshotGoal(0, 1, build.size)


def consume_log(build: Build) -> Goal:
    return ConsumeLogGoal(build.size, NONE, PATIENCE)


PHASES: dict[str, tuple[Callable[[Build], Goal], Event]] = {
    "claim": (snapshot, Event.CLAIM),
    "files": (snapshot, Event.FILES),
    "chunks": (snapshot, Event.CHUNKS),
    "seal": (consume_log, Event.SEAL),
    "epochs": (consume_log, Event.EPOCHS),
    "certify": (lambda _: VerifyGoal(), Event.CERTIFY),
    "finish": (lambda _: FinishGoal(), Event.FINISH),
}


@pytest.fixture
def build(source: Source, tmp_path: Path, phase: str) -> Build:
    """A build in two rounds of the snapshot, with changes pending."""
    made = Build(source, tmp_path / "target", strategy="arrangement" if phase == "chunks" else "snapshot")
    made.size = RoundSize(rows=100)
    made.plan()
    source.sql("UPDATE $table SET $n = 77 WHERE $id % 3 = 0")
    source.sql("DELETE FROM $table WHERE $id % 5 = 0")
    return made


def ready(build: Build, phase: str) -> None:
    """Bring the build to where the phase begins."""
    order: list[Callable[[], Any]] = [build.snapshot, build.consume_log, build.catch_up, build.verify]
    for step in order[
        : {"claim": 0, "files": 0, "chunks": 0, "seal": 1, "epochs": 1, "certify": 3, "finish": 4}[phase]
    ]:
        step()


LONG = ("files", "chunks", "seal", "certify", "finish")
"""A sleeper of another phase is fenced by the same lines, and the simulation has sleepers in all of them."""


@pytest.mark.parametrize(
    "phase", [pytest.param(phase, marks=pytest.mark.soak if phase in LONG else ()) for phase in PHASES]
)
def test_a_sleeper_is_fenced_when_it_wakes(build: Build, phase: str) -> None:
    make, event = PHASES[phase]
    ready(build, phase)
    sleeper = Sleeper(build, make(build), event)
    after = build.run(make(build))
    version = build.reader.log.head()
    with pytest.raises(Fenced):
        sleeper.wake()
    assert build.reader.log.head() == version, "the sleeper wrote something"
    assert build.reader.state().positions == after.positions
    pinned = event in (Event.CLAIM, Event.FILES)
    assert after.reached == (after.plan.source.epoch if pinned else build.source.head)
    build.assert_equal_at(after.reached)
