"""A source that was put back from a backup and has grown again: the same table, the same numbers, another history."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from airflow_backfill.core.attempts.goals import CatchUpGoal, ConsumeLogGoal, Goal, RepairGoal
from airflow_backfill.core.attempts.recovery import recover
from airflow_backfill.core.errors import SourceReplaced
from airflow_backfill.core.gates import gate
from airflow_backfill.core.gates.max_lag import MaxLag
from airflow_backfill.core.model.record import decode
from airflow_backfill.core.splits.position import Consumed, InEpoch
from airflow_backfill.core.state import effect as fx
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.commit import CommitId
from airflow_backfill.core.values.epoch import EpochRange
from airflow_backfill.core.values.phase import Event, Phase
from airflow_backfill.core.values.round_size import RoundSize
from tests.core.builds import logged, planned, sealed, upstream, writing
from tests.core.chain_model import claimed, turns
from tests.core.model_target import NO_LAG, PATIENCE, Model
from tests.core.running import Running
from tests.core.strategies.test_arrangement import arranged, until_round
from tests.core.tasks import CANCEL, CATCH_UP, CONSUME, FINISH, READ, VERIFY, V, follow


def reading() -> Model:
    """Some of the snapshot is read."""
    model = planned()
    work = writing(model, READ, 2)
    work.step()
    return model


def ranges() -> Model:
    """Some of the ranges are read, and stand at a later epoch than was planned."""
    model = arranged()
    model.write(times=3)
    until_round(model.start(READ), 2)
    return model


def pinned() -> Model:
    model = logged()
    model.run(CATCH_UP)
    return model


def in_part() -> Model:
    """The first of several parts of an epoch is applied."""
    model = sealed()
    model.write(rows=50, size=50)
    small = RoundSize(bytes=10, rows=10)
    work = writing(model, ConsumeLogGoal(small, NO_LAG, PATIENCE), 2)
    work.step()
    assert isinstance(model.state().positions[0], InEpoch)
    return model


BUILDS: dict[str, tuple[Callable[[], Model], Goal]] = {
    "snapshot": (reading, READ),
    "arrangement": (ranges, READ),
    "sealed": (sealed, CONSUME),
    "consume log": (logged, CONSUME),
    "a part of an epoch": (in_part, CONSUME),
    "catch-up": (pinned, VERIFY),
    "repair": (pinned, RepairGoal()),
    "upstream": (lambda: upstream(3), follow(V + 12)),
}


@pytest.mark.parametrize("where", BUILDS)
def test_no_phase_follows_another_history(where: str) -> None:
    make, task = BUILDS[where]
    model = make()
    commits, head = model.target.head, model.source.head
    model.put_back(V - 1)
    model.write(times=head + 5)
    for _ in range(2):  # a retry changes nothing
        with pytest.raises(SourceReplaced, match=r"earlier state.*plan the build again") as raised:
            model.run(task)
    assert model.target.head == commits
    assert str(raised.value.data["found"]).endswith("history 2")
    # Where the planned epoch is another one now, no version of the target is of that history.
    assert ("RESTORE the target" in raised.value.message) is (raised.value.data["epoch"] > V)


@pytest.mark.parametrize("where", BUILDS)
def test_what_was_not_applied_may_be_another_one(where: str) -> None:
    """Everything that the target holds is in the new history, too."""
    make, task = BUILDS[where]
    model = make()
    stood = max(commit.version for commit in model.state().stands)
    model.write(times=2)
    model.put_back(stood)
    model.write(times=6)
    model.run(task)


def test_a_history_that_is_put_back_during_a_round_gets_no_more_than_that_round() -> None:
    model = logged()
    model.write(times=2)
    running = writing(model, CONSUME, 2)
    model.put_back(V - 1)
    model.write(times=20)
    with pytest.raises(SourceReplaced, match=f"epoch {V + 5}"):
        running.finish()


def test_each_lane_remembers_where_it_stands() -> None:
    """The source is put back to between the epochs of two lanes: the one that is behind would not notice."""
    state = logged().state()
    assert state.newest is not None
    ahead = replace(state.newest, record=replace(state.newest.record, source=CommitId(V + 6, "ahead")))
    both = replace(state, lanes=(state.newest, ahead))
    assert {commit.version for commit in both.stands} == {V + 3, V + 6}


def test_an_announced_epoch_that_is_another_one_now_is_no_epoch() -> None:
    model, _, announcer = claimed()
    model.write(times=3)
    turns(announcer)
    model.put_back(V)
    model.write(times=9)
    with pytest.raises(SourceReplaced, match=f"epoch {V + 3}"):
        announcer.finish()
    me = Attempt(1, "attempt-1")
    with pytest.raises(SourceReplaced):
        model.beside(me).finish()
    with pytest.raises(SourceReplaced):
        model.run(READ)


def test_what_is_announced_cannot_go_back_with_the_target_and_the_error_says_so() -> None:
    model, _, announcer = claimed()
    before = model.target.head
    model.write(times=3)
    turns(announcer)
    model.put_back(V)
    model.write(times=9)
    for _ in range(2):
        with pytest.raises(SourceReplaced, match=r"RESTORE the target .* not help if one of them was announced"):
            model.run(READ)
        model.foreign("RESTORE", restored=before)
        Running(model, recover(model.attempt())).finish()


@pytest.mark.parametrize("recovers", [True, False])
def test_a_hand_off_epoch_that_is_gone_is_awaited_or_given_up(recovers: bool) -> None:
    model = sealed()
    model.write(times=3)
    task = CatchUpGoal(RoundSize(10, 10), MaxLag(epochs=100), PATIENCE)
    until_event(model.start(task), Event.EPOCHS)
    assert (model.state().applied, model.state().handoff) == (V, V + 3)
    model.put_back(V + 1)
    with pytest.raises(SourceReplaced, match=f"has that epoch again.* --epoch {V + 1} "):
        model.run(task)
    if recovers:
        Running(model, recover(model.attempt(), V + 1)).finish()
    else:
        model.write(times=2)
    model.run(task)
    model.run(VERIFY)
    assert model.run(FINISH).handoff == (V + 1 if recovers else V + 3)


def until_event(running: Running, event: Event) -> None:
    while not (isinstance(running.waits_at, fx.CommitRecord) and running.waits_at.record.event is event):
        running.step()


def test_the_gate_does_not_open_on_another_history() -> None:
    model = logged()
    model.put_back(V - 1)
    model.write(times=20)
    state = model.state()
    verdict = gate.decide(state, model.view(state.reached), (), gate.Conditions(MaxLag(epochs=10**6)), model.now)
    assert isinstance(verdict, gate.Broken) and isinstance(verdict.error, SourceReplaced)


def test_a_build_can_be_ended_and_finished_whatever_became_of_its_source() -> None:
    model = logged()
    model.put_back(V - 1)
    model.write(times=20)
    assert model.run(CANCEL).phase is Phase.CANCELLED
    model = pinned()
    model.run(VERIFY)
    model.put_back(V - 1)
    model.write(times=20)
    stands = model.state().stands
    assert model.run(FINISH).stands == stands


def test_a_recovery_goes_on_with_the_history_that_is_there() -> None:
    model = upstream(3)
    model.put_back(V - 1)
    model.write(times=12)
    Running(model, recover(model.attempt(), V + 3)).finish()
    assert model.state().stands == (CommitId(V + 3, f"{V + 3} of history 2"),)
    model.run(VERIFY)
    model.run(FINISH)
    assert model.run(follow(V + 6)).applied == V + 6


def test_a_history_that_is_gone_leaves_nothing_to_compare() -> None:
    """The applied epoch's commit was cleaned up, all later ones are there."""
    model = logged()
    model.write(times=2)
    model.source.gone = set(range(V + 4))
    state = model.run(CONSUME)
    assert state.applied == V + 5 and [commit.version for commit in state.stands] == [V + 5]


def test_records_from_before_there_were_identities_are_compared_with_nothing() -> None:
    model = Model()
    draft = model.draft()
    model.draft = lambda lanes=1: replace(draft, source=replace(draft.source, digest=None))  # type: ignore[method-assign]
    assert "digest" not in model.plan().to_json()["source"] and model.state().stands == ()
    model.sealed()
    model.write(times=3)
    state = model.run(CONSUME)
    assert state.stands == (CommitId(V + 3, f"{V + 3} of history 1"),)


def test_a_record_keeps_the_commit_and_an_old_one_has_none() -> None:
    record = logged().records()[-1]
    assert record.source == CommitId(V + 3, f"{V + 3} of history 1")
    assert record.positions == (Consumed(V + 3),) * 3 and decode(record.encode()) == record
    old: dict[str, Any] = {name: value for name, value in record.to_json().items() if name != "source"}
    assert decode(replace(record, source=None).encode()).to_json() == old
    assert record.epochs == EpochRange(V + 1, V + 4) or record.epochs is None
