"""What people are told of a build in any state, whatever its attempts left behind and however wrong a clock is."""

from __future__ import annotations

import json
import random
from dataclasses import replace

from hypothesis import given

from airflow_backfill.core.reports.attempt_status import AttemptStatus, Life
from airflow_backfill.core.reports.clocks import doubts
from airflow_backfill.core.reports.due import to_clear
from airflow_backfill.core.reports.health import Condition, health
from airflow_backfill.core.reports.progress import Speed
from airflow_backfill.core.reports.summary import told
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.control import Command, Verb, obey
from airflow_backfill.core.values.phase import Phase
from tests.core.histories import SEEDS, barriers, random_build, states

APART = (0, 0, 0, -1, 1, -61_000, 61_000, -(10**6), 10**6, -(10**10), 3 * 10**10)
"""By how many milliseconds two clocks differ: up to a year."""
TASKS = ("plan", "snapshot", "consume_log", "catch_up", "verify", "finish", "upstream", "explain", "repair", "cancel")
OUTCOMES = (None, None, "OK", "FENCED", "KEY_NULL", "APPLICATION_FAILED")


def random_attempt(rng: random.Random, generation: int, now: int, names: list[str]) -> AttemptStatus:
    def at() -> int | None:
        return rng.choice([None, now + rng.choice(APART)])

    code, where = rng.choice(OUTCOMES), {"dag_id": "d", "task_id": "t", "run_id": rng.choice("ab")}
    document = {"attempt": rng.choice(names), "task": rng.choice(TASKS), "at": at(), **where}
    document |= {"map_index": rng.choice([None, -1, 0, 1])}
    outcome = None if code is None else {"code": code, "retry": code == "APPLICATION_FAILED", "at": at()}
    return AttemptStatus.told(generation, document, {"at": at()}, outcome, at(), now)


def checked(rng: random.Random, build: BuildState, now: int, speed: Speed | None, source: object) -> None:
    names = ["me", *(one.record.attempt for one in build.known)]
    tried = [random_attempt(rng, n, now, names) for n in range(rng.randrange(6))]
    verbs = rng.sample(list(Verb), k=rng.randrange(3))
    orders = [Command(one, rate=rng.choice([0, 1, 10**9]) if one is Verb.THROTTLE else None) for one in verbs]
    commands = list(enumerate(orders, build.control.number + 1))
    control = obey(build.control, commands)
    found = told(build, source, speed, now)  # type: ignore[arg-type]
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    numbers = [found["rows_per_second"], found["seconds_left"], *(found["lag"] or {}).values()]
    assert all(number is None or number >= 0 for number in numbers), numbers
    assert 0 <= found["percent"] <= 100 and 0 <= found["phase_percent"] <= 100
    known = health(build, control, commands, tried, None, now)
    runs = any(one.works and one.life is Life.RUNNING for one in tried)
    stopped = control.stopped or control.cancelled or build.phase is Phase.CANCELLED
    if runs and not stopped:
        assert known.condition in (Condition.WORKING, Condition.THROTTLED, Condition.WAITING, Condition.STUCK)
    ended = control.cancelled or build.phase is Phase.CANCELLED
    assert (known.condition is Condition.PAUSED) is (control.stopped and not ended)
    instances = {one.instance for one in tried if one.instance is not None}
    lanes = {replace(one, map_index=lane) for one in instances for lane in build.unread if one.map_index >= 0}
    assert set(to_clear(build, tried)) <= instances | lanes
    assert all(doubts(tried, source, now))  # type: ignore[arg-type]


@given(SEEDS)
def test_no_history_and_no_clock_make_it_tell_nonsense(seed: int) -> None:
    rng, model = random.Random(seed), random_build(seed)
    past = list(barriers(model))
    for build in states(model):
        newest = build.newest
        before = [one for one in reversed(past) if newest is not None and one.version <= newest.version]
        of_phase = [replace(one, at=one.at + rng.choice(APART)) for one in before if one.record.phase is build.phase]
        now = max(0 if newest is None else newest.at + rng.choice(APART), 0)
        checked(rng, build, now, Speed.of_barriers(build, of_phase), rng.choice([None, model.view(build.reached)]))
