"""Clocks that differ by hours, and one that is set back: nothing opens never, and nothing waits for hours."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_backfill.core.attempts.attempt import HEARTBEAT_MS
from airflow_backfill.core.attempts.goals import CatchUpGoal, ConsumeLogGoal
from airflow_backfill.core.attempts.throttle import POLL_MS
from airflow_backfill.core.gates.max_lag import MaxLag
from airflow_backfill.core.source.backlog import Backlog
from airflow_backfill.core.state.effect import ReadSourceLog, SleepUntil
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.core.values.phase import Event, Phase
from airflow_backfill.core.values.round_size import RoundSize
from tests.core.builds import sealed
from tests.core.histories import barriers
from tests.core.model_target import PATIENCE, Model, Running
from tests.core.tasks import SNAPSHOT

HOUR = 3_600_000
LAG = MaxLag(age=60_000)


def written_meanwhile(model: Model, attempt: Running, ahead: int) -> None:
    """Before each look at the source an epoch is written, by a clock that is ahead by so many milliseconds."""
    written = {model.source.head: model.now + ahead}
    while not attempt.ended:
        asks = attempt.waits_at
        if not isinstance(asks, ReadSourceLog):
            attempt.step()
            continue
        model.now += 1_000
        model.write()
        written[model.source.head] = model.now + ahead
        view = model.view(asks.after)
        epochs = (replace(epoch, at=written.get(epoch.number, model.now + ahead)) for epoch in view.epochs)
        attempt.step(replace(view, epochs=Backlog(epochs)))


@pytest.mark.parametrize("ahead", [-3 * HOUR, 0, 3 * HOUR], ids=["behind", "right", "ahead"])
def test_the_gate_opens_whatever_clock_the_writers_have(ahead: int) -> None:
    model = sealed(rows=1)
    consumes = model.start(ConsumeLogGoal(RoundSize(), LAG, PATIENCE))
    written_meanwhile(model, consumes, ahead)
    assert consumes.error is None and model.state().phase is Phase.CONSUME_LOG
    catches_up = model.start(CatchUpGoal(RoundSize(), LAG, PATIENCE))
    written_meanwhile(model, catches_up, ahead)
    assert catches_up.error is None and model.state().at_handoff


def test_no_wait_is_longer_because_the_clock_is_set_back_meanwhile() -> None:
    model = Model()
    model.plan()
    model.now += 2 * HOUR
    model.order(Command(Verb.PAUSE))
    wait = model.start(SNAPSHOT).until(SleepUntil)
    assert wait.left(wait.now) == wait.left(wait.now - HOUR) == POLL_MS
    assert wait.left(wait.now + 1_000) == POLL_MS - 1_000 and wait.left(wait.now + HOUR) == 0


def test_a_waiting_attempt_whose_clock_is_set_back_still_shows_that_it_lives() -> None:
    model = Model()
    model.plan()
    model.now += 2 * HOUR
    model.order(Command(Verb.PAUSE))
    attempt = model.start(SNAPSHOT)
    attempt.until(SleepUntil)
    model.now -= HOUR
    begun = model.now
    while model.now < begun + 3 * HEARTBEAT_MS:
        attempt.step()
    marks = [barrier for barrier in barriers(model) if barrier.record.event is Event.MARK]
    assert len(marks) >= 3
