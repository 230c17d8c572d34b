"""Back-pressure: writers that ask before they commit let a build converge, and are never waited for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_backfill.core.attempts.goals import CatchUpGoal, ConsumeLogGoal
from airflow_backfill.core.errors import NotConverging
from airflow_backfill.core.gates.admission import admit
from airflow_backfill.core.gates.gate import Waiting
from airflow_backfill.core.gates.max_lag import MaxLag
from airflow_backfill.core.splits.position import InEpoch
from airflow_backfill.core.state.effect import CommitRecord, SleepUntil
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.core.values.phase import Event, Phase
from airflow_backfill.core.values.round_size import RoundSize
from tests.core.builds import planned, sealed
from tests.core.model_target import NO_LAG, PATIENCE, ROUND, Model
from tests.core.tasks import CATCH_UP, SNAPSHOT, V, follow

LIMIT = MaxLag(epochs=3)
ONE_EACH = ConsumeLogGoal(RoundSize(10**9, 1), LIMIT, PATIENCE)


def asked(model: Model, limit: MaxLag = LIMIT) -> Waiting | None:
    """What a writer is told now."""
    state = model.state()
    return admit(state, model.view(state.reached), model.commands, limit, model.now)


@pytest.mark.parametrize("heeded", [False, True])
def test_a_source_that_changes_faster_than_rounds_take_converges_if_its_writers_wait(heeded: bool) -> None:
    model = sealed(times=20)
    attempt, waits = model.start(ONE_EACH), 0
    while not attempt.ended:
        if isinstance(attempt.waits_at, CommitRecord) and attempt.waits_at.record.event is Event.EPOCHS:
            for _ in range(2):
                held_back = heeded and asked(model) is not None
                waits += held_back
                model.write(times=0 if held_back or model.source.head > V + 60 else 1)
        attempt.step()
    if heeded:
        assert waits and attempt.error is None and model.source.head < V + 60
    else:
        with pytest.raises(NotConverging):
            attempt.finish()


def test_a_build_that_cannot_get_past_an_epoch_holds_nobody_up() -> None:
    model = sealed(times=9)
    assert asked(model) is not None
    model.alter(configuration={})
    assert asked(model) is None


@pytest.mark.parametrize(("pending", "waits"), [(0, False), (3, False), (4, True)])
def test_a_writer_waits_while_more_than_that_is_pending(pending: int, waits: bool) -> None:
    model = sealed(times=pending)
    told = asked(model)
    assert told == (Waiting((f"{pending} epochs are pending after epoch {V}",), lag=True) if waits else None)
    model.now += 60_000
    assert (asked(model, MaxLag(age=59_000)) is not None) == (pending > 0)
    assert asked(model, MaxLag(age=60_000)) is None


def test_nobody_waits_in_another_phase() -> None:
    model = planned()
    model.write(times=9)
    assert asked(model) is None
    model.run(SNAPSHOT)
    assert asked(model) is None
    model.run(ConsumeLogGoal(ROUND, MaxLag(epochs=100), PATIENCE))
    assert asked(model) is not None
    model.run(CATCH_UP)
    model.write(times=9)
    assert asked(model) is None
    model.finished_after_proof()
    assert asked(model) is None
    model.run(follow(model.source.head))
    model.write(times=9)
    assert asked(model) is None


@pytest.mark.parametrize("verb", [Verb.PAUSE, Verb.HOLD, Verb.CANCEL])
def test_nobody_waits_for_a_build_that_was_told_to_wait_itself(verb: Verb) -> None:
    model = sealed(times=9)
    model.order(Command(verb))
    assert asked(model) is None


def test_an_epoch_in_part_is_one_that_is_pending() -> None:
    model = sealed(rows=10)
    state = model.state()
    begun = replace(state, positions=(InEpoch(V + 1, 1, 3),) * len(state.positions))
    source = model.view(begun.reached)
    assert admit(begun, source, (), MaxLag(epochs=1), 0) is None
    assert admit(begun, source, (), NO_LAG, 0) is not None


@pytest.mark.parametrize("phase", [Phase.CONSUME_LOG, Phase.CATCH_UP])
def test_the_hand_off_needs_no_commit_that_a_closed_gate_holds_back(phase: Phase) -> None:
    """All writers wait from now on, however long: the build goes through, and the gate is open then."""
    model = sealed(times=9)
    attempt = model.start(CatchUpGoal(ROUND, MaxLag(epochs=9), PATIENCE))
    while model.state().phase is not phase:
        attempt.step()
    head = model.source.head
    while not attempt.ended:
        assert not isinstance(attempt.waits_at, SleepUntil), "it waits for a commit"
        attempt.step()
    state = model.finished_after_proof()
    assert (state.handoff, model.source.head) == (head, head) and asked(model, NO_LAG) is None


def test_a_build_whose_throttle_has_ended_asks_its_writers_again() -> None:
    model = sealed(times=20)
    model.order(Command(Verb.THROTTLE, 0, until=model.now + 1_000))
    assert asked(model) is None
    model.now += 1_000
    assert asked(model) is not None
