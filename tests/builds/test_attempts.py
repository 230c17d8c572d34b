from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from airflow_backfill.builds.attempts import attempts
from airflow_backfill.builds.glance import glance
from airflow_backfill.builds.signs import Signs
from airflow_backfill.builds.status import status
from airflow_backfill.core.attempts.goals import SnapshotGoal
from airflow_backfill.core.errors import Fenced, KeyNull
from airflow_backfill.core.reports.attempt_status import SILENT_MS
from airflow_backfill.core.state.effect import CommitRecord
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.round_size import RoundSize
from tests.core.tasks import CONSUME, READ
from tests.ledger.json_target import JsonBuild

TASK = {"task": "snapshot", "dag_id": "d", "task_id": "t", "run_id": "r", "map_index": -1}


@pytest.fixture
def build(tmp_path: Path) -> JsonBuild:
    build = JsonBuild(tmp_path)
    build.plan()
    return build


def shown(build: JsonBuild, later: int = 0) -> dict[str, Any]:
    now = time.time_ns() // 1_000_000 + later
    return attempts(build.reader.control, build.state(), now, 5).statuses[-1].to_json()


def test_an_attempt_is_told_with_its_task_and_times(build: JsonBuild) -> None:
    control, begun = build.reader.control, time.time_ns() // 1_000_000
    me = build.reader.draw_attempt({**TASK, "try_number": 2})
    assert (shown(build)["life"], shown(build)["started"], shown(build)["ended"]) == ("starting", None, None)
    control.announce(me, {"application": "local-1", "ui": "http://spark:4040"})
    found = shown(build)
    assert (found["life"], found["application"], found["ui"]) == ("running", "local-1", "http://spark:4040")
    assert {name: found[name] for name in TASK} == TASK and found["try_number"] == 2
    control.store_outcome(me, Fenced("a newer attempt has taken over").to_json())
    found = shown(build)
    assert (found["life"], found["outcome"], found["message"]) == ("ended", "FENCED", "a newer attempt has taken over")
    assert begun <= found["drawn"] <= found["started"] <= found["ended"] <= time.time_ns() // 1_000_000


def test_a_dead_attempt_does_not_look_like_a_running_one(build: JsonBuild) -> None:
    build.reader.control.announce(build.reader.draw_attempt(TASK), {})
    assert shown(build)["life"] == "running" and shown(build, SILENT_MS + 60_000)["life"] == "silent"


def test_whoever_looks_again_needs_no_other_clock(build: JsonBuild, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("airflow_backfill.builds.attempts.SIGNS", Signs(lambda: clock[0]))
    control, me = build.reader.control, build.reader.draw_attempt(TASK)
    control.announce(me, {"alive": 5, "at": 5})
    ahead = 5 - time.time_ns() // 1_000_000 + 300_000  # the reader's clock is five minutes ahead of the driver's
    lives = []
    for seconds, alive in ((0, 5), (170, 5), (20, 5), (0, 6), (170, 6), (20, 7), (181, 7)):
        clock[0] += seconds
        control.announce(me, {"alive": alive, "at": 5})
        lives.append(shown(build, ahead)["life"])
    assert lives == ["running", "running", "silent", "running", "running", "running", "silent"]
    control.store_outcome(me, Fenced("a newer attempt has taken over").to_json())
    assert shown(build, ahead)["life"] == "ended"


def test_an_older_sign_is_no_news_and_only_the_last_attempts_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("airflow_backfill.builds.signs.MOST", 2)
    signs = Signs(lambda: clock[0])
    signs.unchanged_ms("a", 7)
    clock[0] = 60.0
    assert signs.unchanged_ms("a", 6) == 60_000
    for other in ("b", "c"):
        signs.unchanged_ms(other, 1)
    assert signs.unchanged_ms("a", 7) == 0, "it was forgotten"


def test_a_damaged_heartbeat_hides_nothing_else_of_its_attempt(build: JsonBuild) -> None:
    control = build.reader.control
    me = build.reader.draw_attempt(TASK)
    control.announce(me, {})
    Path(f"{build.location}.backfill/attempts/{me.generation:09}.started.json").write_text("{")
    found = shown(build)
    assert (found["task"], found["task_id"], found["life"]) == ("snapshot", "t", "unknown")
    assert "started.json" in found["message"]
    control.store_outcome(me, Fenced("a newer attempt has taken over").to_json())
    assert (shown(build)["life"], shown(build)["outcome"]) == ("ended", "FENCED")


def test_a_commit_is_a_sign_of_life(build: JsonBuild) -> None:
    me = build.reader.draw_attempt({**TASK, "at": 1})
    build.reader.control.announce(me, {"at": 1})
    assert shown(build)["life"] == "silent"
    build.now = time.time_ns() // 1_000_000
    build.start(READ, me).until(CommitRecord, nth=2)
    assert shown(build)["life"] == "running"


def test_an_older_try_of_the_same_task_is_superseded(build: JsonBuild) -> None:
    build.reader.draw_attempt(TASK)
    build.reader.draw_attempt({**TASK, "map_index": 1})
    build.reader.draw_attempt(TASK)
    found = attempts(build.reader.control, build.state(), time.time_ns() // 1_000_000, 5).statuses
    assert [one.life.value for one in found] == ["ended", "superseded", "starting", "starting"]


def test_attempts_that_airflow_does_not_know_supersede_nobody(build: JsonBuild) -> None:
    build.reader.draw_attempt({"task": "cancel"})
    build.reader.draw_attempt({"task": "cancel"})
    found = attempts(build.reader.control, build.state(), time.time_ns() // 1_000_000, 2).statuses
    assert [one.life.value for one in found] == ["starting", "starting"]


OK = {"code": "OK"}
LANES = 6
"""More than the last attempts that are shown."""


def of_lane(build: JsonBuild, lane: int) -> Attempt:
    """An attempt that runs, and holds its lane."""
    me = build.reader.draw_attempt({**TASK, "map_index": lane})
    build.reader.control.announce(me, {})
    build.start(SnapshotGoal(lane, LANES, RoundSize(1, 1)), me).until(CommitRecord, nth=2)
    return me


def told(build: JsonBuild) -> list[tuple[str, bool, str]]:
    """Condition, whether it needs attention, and why: on the overview, and in the status."""
    health = [found["health"] for found in (glance(build.location), status(build.location))]
    return [(one["condition"], one["needs_attention"], one["why"]) for one in health]


@pytest.fixture
def lanes(tmp_path: Path) -> JsonBuild:
    build = JsonBuild(tmp_path, splits=LANES)
    build.plan(LANES)
    build.now = time.time_ns() // 1_000_000
    return build


def test_a_build_works_as_long_as_one_lane_does(lanes: JsonBuild) -> None:
    working, *others = [of_lane(lanes, lane) for lane in range(LANES)]
    for other in others:
        lanes.reader.control.store_outcome(other, OK)
    assert told(lanes) == [("working", False, f"attempt {working.generation} (snapshot)")] * 2


def test_a_lane_that_failed_for_good_is_told_while_others_work_and_after(lanes: JsonBuild) -> None:
    lost, working = of_lane(lanes, 0), of_lane(lanes, 1)
    why = f"an operator: attempt {lost.generation} (snapshot) ended with KEY_NULL: 3 rows have no key"
    lanes.reader.control.store_outcome(lost, KeyNull("3 rows have no key").to_json())
    assert told(lanes) == [("working", True, f"attempt {working.generation} (snapshot); {why}")] * 2
    lanes.reader.control.store_outcome(working, OK)
    assert told(lanes) == [("waiting", True, why)] * 2


def test_a_lane_that_is_tried_again_is_not_lost(lanes: JsonBuild) -> None:
    lost, working = of_lane(lanes, 0), of_lane(lanes, 1)
    lanes.reader.control.store_outcome(lost, KeyNull("3 rows have no key").to_json())
    lanes.reader.draw_attempt({**TASK, "map_index": 0})
    assert told(lanes) == [("working", False, f"attempt {working.generation} (snapshot)")] * 2


@pytest.mark.parametrize("task", ["explain", "prove"])
def test_who_only_looks_hides_nobody_who_works(task: str, build: JsonBuild) -> None:
    build.run(READ)
    build.now = time.time_ns() // 1_000_000
    me = build.reader.draw_attempt({**TASK, "task": "consume_log"})
    build.reader.control.announce(me, {})
    build.start(CONSUME, me).until(CommitRecord, nth=2)
    for _ in range(6):
        build.reader.control.store_outcome(build.reader.draw_attempt({"task": task}), OK)
    assert told(build) == [("working", False, f"attempt {me.generation} (consume_log)")] * 2
