from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_backfill.builds.history import History
from airflow_backfill.core.attempts.goals import CatchUpGoal, ConsumeLogGoal, SnapshotGoal
from airflow_backfill.core.gates.max_lag import MaxLag
from airflow_backfill.core.reports.progress import Speed, seconds_left
from airflow_backfill.core.state.effect import CommitRecord, FileSize
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.core.values.round_size import RoundSize
from airflow_backfill.ledger.log_listing import commit_name
from tests.core.model_target import PATIENCE, ROUND
from tests.ledger.json_target import JsonBuild

ONE = RoundSize(1, 10**6)


@pytest.fixture
def build(tmp_path: Path) -> JsonBuild:
    build = JsonBuild(tmp_path, [FileSize(1_000, 50)] * 40)
    build.write_ms = 2_000
    build.plan()
    return build


def speed_of(build: JsonBuild, state: BuildState) -> Speed | None:
    return Speed.of_barriers(state, History.read(build.reader.log, state).of_this_phase)


def test_the_speed_is_that_of_the_last_rounds(build: JsonBuild) -> None:
    """50 rows and 1,000 bytes in 2 s each."""
    build.start(SnapshotGoal(0, 1, ONE)).until(CommitRecord, nth=12)
    state = build.state()
    assert speed_of(build, state) == Speed(25.0, 500.0, None)
    assert seconds_left(state, None, speed_of(build, state)) == 60


def test_waiting_slows_a_build_down(build: JsonBuild) -> None:
    build.order(Command(Verb.THROTTLE, 5))
    build.start(SnapshotGoal(0, 1, ONE)).until(CommitRecord, nth=12)
    speed = speed_of(build, build.state())
    assert speed is not None and 4 <= speed.rows <= 6


def test_one_round_has_no_speed(build: JsonBuild) -> None:
    assert speed_of(build, build.state()) is None
    build.start(SnapshotGoal(0, 1, ONE)).until(CommitRecord, nth=3)
    assert speed_of(build, build.state()) is None


def sealed(build: JsonBuild) -> BuildState:
    build.run(SnapshotGoal(0, 1, ONE))
    return build.run(ConsumeLogGoal(ROUND, MaxLag(epochs=10**6), PATIENCE))


def test_rounds_of_an_earlier_phase_say_nothing_about_this_one(build: JsonBuild) -> None:
    assert speed_of(build, sealed(build)) is None


def test_the_log_comes_nearer_its_end_as_fast_as_fewer_rows_are_pending(build: JsonBuild) -> None:
    build.write(rows=30, times=6)
    sealed(build)
    build.start(ConsumeLogGoal(RoundSize(10**9, 30), MaxLag(epochs=0), PATIENCE)).until(CommitRecord, nth=5)
    speed = speed_of(build, build.state())
    assert speed is not None and speed.nearing == 15.0, "30 rows fewer in each 2 s"
    assert seconds_left(build.state(), build.view(7), speed) == 6


def test_what_comes_after_the_hand_off_is_not_left(build: JsonBuild) -> None:
    build.write(rows=30, times=4)
    sealed(build)
    attempt = build.start(CatchUpGoal(ROUND, MaxLag(epochs=4), PATIENCE))
    attempt.until(CommitRecord, nth=3)
    build.write(rows=30, times=50)
    state = build.state()
    assert (state.phase.value, state.handoff) == ("catch_up", 11)
    assert seconds_left(state, build.view(7), Speed(10.0, 0.0, None)) == 12


def test_a_log_that_was_cleaned_up_has_the_speed_of_what_is_left(build: JsonBuild) -> None:
    build.start(SnapshotGoal(0, 1, ONE)).until(CommitRecord, nth=12)
    state = build.state()
    for version in range(build.target.head - 3):
        Path(build.location, "_delta_log", commit_name(version)).unlink()
    history = History.read(build.reader.log, state)
    assert len(history.barriers) == 4 and not history.whole
    assert Speed.of_barriers(state, history.of_this_phase) == Speed(25.0, 500.0, None)


def test_each_barrier_is_a_point(build: JsonBuild) -> None:
    state = sealed(build)
    history = History.read(build.reader.log, state, commits=1_000)
    points = history.to_json()
    assert history.whole and json.loads(json.dumps(points)) == points
    assert [one["version"] for one in points] == sorted(one["version"] for one in points)
    assert sum(one["rows"] for one in points) == 2_000 and points[-1]["phase"] == "consume_log"
