"""One rate for all strategies: kept and used up, whatever else is committed, refused or lost meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_backfill.core.attempts.goals import SnapshotGoal
from airflow_backfill.core.state import effect as fx
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.core.values.phase import Event
from airflow_backfill.core.values.round_size import RoundSize
from tests.core.model_target import Model
from tests.core.running import Running
from tests.core.topic_model import TopicModel

RATE, UNIT = 20, 10
MINUTES = 3
READ = SnapshotGoal(0, 1, RoundSize(10**9, 10**6))


def files() -> Model:
    return Model([fx.FileSize(UNIT, UNIT)] * (RATE * 60 * MINUTES * 2 // UNIT))


def ranges() -> Model:
    model = Model(borders=["10L"])
    keys = iter(range(10**6))
    model.next_chunk = lambda positions: fx.Chunks({0: (f"{next(keys):09}",)}, 1, UNIT, UNIT)  # type: ignore[method-assign]
    return model


def topic() -> Model:
    return TopicModel(RATE * 60 * MINUTES * 2)


STRATEGIES = pytest.mark.parametrize("strategy", [files, ranges, topic])


def read(model: Model) -> int:
    """Rows of the snapshot that are committed."""
    return sum(rows for _, rows in model.rounds)


def goes_on(model: Model, running: Running, end: int) -> bool:
    """Whether the time is not over; the rate is kept until then, and there is more to read."""
    assert not running.ended and read(model) <= 2 * RATE * 60 * MINUTES
    return model.now < end


def run_for_a_while(model: Model, running: Running) -> tuple[int, int]:
    """How many rows ``MINUTES`` bring, and the largest round of them."""
    end = model.now + MINUTES * 60_000
    while goes_on(model, running, end):
        running.step()
    return read(model), max(rows for _, rows in model.rounds)


def within_the_rate(rows: int, largest: int) -> None:
    promised = RATE * 60 * MINUTES
    assert promised - largest <= rows <= promised + largest and largest <= 5 * RATE + UNIT


@STRATEGIES
@pytest.mark.parametrize("write_ms", [0, 300])
def test_the_same_rate_means_the_same_for_every_strategy(strategy: Any, write_ms: int) -> None:
    model = strategy()
    model.plan()
    model.write_ms = write_ms
    model.order(Command(Verb.THROTTLE, RATE))
    within_the_rate(*run_for_a_while(model, model.start(READ)))


@pytest.mark.slow
@STRATEGIES
def test_asking_costs_nothing_and_earns_nothing(strategy: Any) -> None:
    """However often a command is acknowledged in a barrier without rows: the same rate again, a hold, a release."""
    model = strategy()
    model.plan()
    model.order(Command(Verb.THROTTLE, RATE))
    running = model.start(READ)
    end = model.now + MINUTES * 60_000
    while goes_on(model, running, end):
        if isinstance(running.waits_at, fx.SleepUntil):
            verbs = (Command(Verb.THROTTLE, RATE), Command(Verb.HOLD), Command(Verb.RELEASE))
            model.order(verbs[len(model.commands) % 3])
            model.now = min(model.now + 200, running.waits_at.until)
            running.step(fx.CommitOutcome())
        else:
            running.step()
    assert sum(record.event is Event.MARK for record in model.records()) > 200
    within_the_rate(read(model), max(rows for _, rows in model.rounds))


@STRATEGIES
def test_a_round_that_did_not_land_is_not_charged(strategy: Any) -> None:
    model = strategy()
    model.plan()
    model.order(Command(Verb.THROTTLE, RATE))
    running, writes = model.start(READ), 0
    end = model.now + MINUTES * 60_000
    while goes_on(model, running, end):
        if isinstance(running.waits_at, fx.CommitRecord):
            writes += 1
            running.step(fx.CommitOutcome(conflict="ConcurrentAppend") if writes % 2 else None)
        else:
            running.step()
    rows, largest = read(model), max(rows for _, rows in model.rounds)
    # What is repeated begins half a second later.
    seconds, promised = largest / RATE, RATE * 60 * MINUTES
    assert 0.95 * promised * seconds / (seconds + 0.5) - largest <= rows <= promised + largest
