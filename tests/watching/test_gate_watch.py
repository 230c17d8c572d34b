"""What is seen of a build on its way to the gate."""

from __future__ import annotations

import json
import logging
import shutil
import time
from dataclasses import replace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
from deltalake import DeltaTable

from airflow_backfill.core.attempts.attempt import run
from airflow_backfill.core.attempts.goals import ConsumeLogGoal, SnapshotGoal
from airflow_backfill.core.errors import (
    Cancelled,
    FeedOff,
    HistoryLost,
    Rejected,
    SourceReplaced,
    SourceUnavailable,
    TargetDiverged,
)
from airflow_backfill.core.gates.gate import Broken, Ready, Waiting
from airflow_backfill.core.gates.max_lag import MaxLag
from airflow_backfill.core.state import effect as fx
from airflow_backfill.core.state.drive import drive
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.commit import Commit
from airflow_backfill.core.values.control import Verb
from airflow_backfill.core.values.round_size import RoundSize
from airflow_backfill.testing.applications import Shell
from airflow_backfill.testing.json_log import JsonLog
from airflow_backfill.watching.conditions import window_of
from airflow_backfill.watching.gate_watch import GateWatch
from airflow_backfill.watching.instance import Instance
from airflow_backfill.watching.patience import Patience
from bench import generated
from bench.requests import counted
from tests.airflow.without_spark import WHOLE, built, commit_to, foreign, order

NEVER = window_of(("00:00", "00:00:00.000001", "UTC"))


@pytest.fixture
def fresh(source, target):
    """A build whose log is consumed."""
    return built(source, target, "plan", "snapshot", "consume_log")


def watch(target, **options):
    return GateWatch(**{"target": str(target), "max_lag": MaxLag(epochs=1), **options})


def approval(monkeypatch, state):
    monkeypatch.setattr(Instance, "state", lambda self: state)
    return Instance("d", "r", "approve")


@pytest.mark.parametrize(("index", "state"), [(-1, "skipped"), (0, "success"), (1, "failed"), (2, None)])
def test_a_mapped_approval_is_that_of_its_own_build(monkeypatch, index, state):
    states = {"r": {"approve": "skipped", "approve_0": "success", "approve_1": "failed"}}
    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", lambda **asked: states)
    assert Instance("d", "r", "approve", index).state() == state


def test_airflow_that_does_not_say_the_state_of_an_approval_is_asked_again(fresh, target, monkeypatch):
    def down(**asked):
        raise AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail={"status_code": 503}))

    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", down)
    gate = watch(target, approval=Instance("d", "r", "approve"))
    patience = Patience(logging.getLogger(__name__), 2)
    assert patience.ask(gate.live) is None
    with pytest.raises(SourceUnavailable, match=r"Airflow does not say the state of task 'approve'.*503"):
        patience.ask(gate.live)


def test_a_fresh_build_is_ready(fresh, target):
    assert watch(target).gate().verdict == Ready(3)
    assert watch(target).live().verdict == Ready(3)


@pytest.mark.parametrize("last", ["catch_up", "verify", "finish", "upstream"])
def test_a_gate_that_was_passed_asks_no_source(source, target, last):
    """A finished build is run or cleared again when nobody keeps the source any more, or its history."""
    applications = (*WHOLE, "upstream")
    built(source, target, *applications[: applications.index(last) + 1])
    shutil.rmtree(source)
    assert watch(target, window=NEVER).gate().verdict == watch(target, window=NEVER).live().verdict == Ready(3)


def test_a_snapshot_in_the_making_is_not(source, target):
    built(source, target, "plan")
    assert watch(target).gate().verdict == Waiting(("the snapshot is not sealed",), lag=False)


def test_the_gate_goes_by_the_lag_that_was_committed(fresh, source, target):
    commit_to(source, 5)
    assert watch(target).gate().verdict == Ready(3)
    assert watch(target).live().verdict == Waiting(("5 epochs are pending after epoch 3",), lag=True)


@pytest.mark.parametrize(("epochs", "wake"), [(1, False), (2, False), (3, True)])
def test_a_held_build_is_left_to_fall_behind_twice_the_bound(fresh, source, target, epochs, wake):
    order(target, Verb.HOLD)
    commit_to(source, epochs)
    observed = watch(target).live()
    assert isinstance(observed.verdict, Waiting)
    assert "the build is on hold" in observed.verdict.reasons
    assert (observed.wake, observed.only_lag) == (wake, False)


def test_nobody_but_the_log_holds_it_back(fresh, source, target):
    commit_to(source, 2)
    observed = watch(target).live()
    assert (observed.only_lag, observed.wake) == (True, True)


def test_a_paused_build_is_not_woken_to_wait_in_spark(fresh, source, target):
    order(target, Verb.PAUSE)
    commit_to(source, 9)
    assert watch(target).live().wake is False
    order(target, Verb.RESUME)
    assert watch(target).live().wake is True


def test_an_epoch_that_a_held_chain_has_not_announced_wakes_spark(source, target):
    """An application whose announcer never came to a word."""
    built(source, target, "plan", strategy="chain")
    shell = Shell(str(target))
    drive(run(SnapshotGoal(0, 1, RoundSize()), Attempt(1, "a")), shell.answer)

    def paused(effect: Any) -> Any:
        """Whatever it waits for once the snapshot is sealed, it ends."""
        if isinstance(effect, fx.SleepUntil):
            order(target, Verb.PAUSE)
        return shell.answer(effect)

    drive(run(ConsumeLogGoal(RoundSize(), MaxLag(epochs=9), 9), Attempt(2, "b")), paused)
    order(target, Verb.HOLD)
    loose = watch(target, max_lag=MaxLag(epochs=9))
    assert loose.live().wake is False
    commit_to(source)
    assert loose.live().wake is True


def test_a_closed_window(fresh, target):
    closed = Waiting(("the time window is closed",), lag=False)
    assert watch(target, window=NEVER).gate().verdict == closed
    assert watch(target, window=NEVER).live().verdict == closed


def test_an_age_as_bound(fresh, source, target):
    commit_to(source, at=time.time() - 1)
    old = watch(target, max_lag=MaxLag(age=0)).live()
    assert old.only_lag
    assert watch(target, max_lag=MaxLag(age=3_600_000)).live().verdict == Ready(3)


@pytest.mark.parametrize("state", [None, "awaiting_input", "deferred", "running", "up_for_retry"])
def test_an_approval_that_is_not_there_yet(fresh, target, monkeypatch, state):
    observed = watch(target, approval=approval(monkeypatch, state)).live()
    assert observed.verdict == Waiting(("the hand-off is not approved yet",), lag=False)
    assert observed.wake is False


def test_an_approval(fresh, target, monkeypatch):
    assert watch(target, approval=approval(monkeypatch, "success")).live().verdict == Ready(3)


@pytest.mark.parametrize("state", ["failed", "upstream_failed", "skipped"])
def test_a_rejection(fresh, target, monkeypatch, state):
    observed = watch(target, approval=approval(monkeypatch, state)).live()
    assert isinstance(observed.verdict, Broken) and isinstance(observed.verdict.error, Rejected)
    assert observed.wake is True


def test_a_cancel_is_seen_at_once(fresh, target):
    order(target, Verb.CANCEL)
    for verdict in (watch(target).gate().verdict, watch(target).live().verdict):
        assert isinstance(verdict, Broken) and isinstance(verdict.error, Cancelled)


def test_lost_history_is_seen_at_once(fresh, source, target):
    commit_to(source, 2)
    DeltaTable(source).create_checkpoint()
    (source / "_delta_log" / f"{4:020}.json").unlink()
    observed = watch(target).live()
    assert isinstance(observed.verdict, Broken) and isinstance(observed.verdict.error, HistoryLost)


def test_a_foreign_commit_opens_nothing(fresh, target):
    foreign(target)
    for look in (watch(target).gate, watch(target).live):
        with pytest.raises(TargetDiverged):
            look()


def test_it_survives_json():
    whole = GateWatch("/t", MaxLag(age=5), "b", NEVER, Instance("d", "r", "t", 2), "conn")
    assert GateWatch.from_json(json.loads(json.dumps(whole.to_json()))) == whole
    bare = GateWatch("/t", MaxLag(epochs=0))
    assert GateWatch.from_json(json.loads(json.dumps(bare.to_json()))) == bare


@pytest.mark.parametrize("pending", [20, 1_200])
def test_a_poll_costs_the_same_whatever_is_pending(fresh, source, target, pending):
    """A barrier that observed all of them vouches for them, whoever polls."""
    order(target, Verb.HOLD)
    generated.commits(str(source), pending)
    shell = Shell(str(target))
    drive(run(ConsumeLogGoal(RoundSize(epochs=1), MaxLag(epochs=pending - 1), 9), Attempt(9, "a")), shell.answer)
    with counted() as asked:
        for look in (GateWatch.gate, GateWatch.live):
            waiting = watch(target)
            assert isinstance(look(waiting).verdict, Waiting)
            first = asked.taken().total()
            assert isinstance(look(waiting).verdict, Waiting)
            assert asked.taken() == {"list": 3, "read": 4} and first < 25
    generated.commits(str(source), 7)
    with counted() as asked:
        watch(target).live()
        assert asked.taken().total() == first + 7


def test_the_target_is_read_again_once_it_has_another_commit(fresh, source, target):
    order(target, Verb.HOLD)
    waiting = watch(target, max_lag=MaxLag(epochs=99))
    assert waiting.live().verdict == Waiting(("the build is on hold",), lag=False)
    foreign(target)
    with pytest.raises(TargetDiverged):
        waiting.live()


def test_a_source_that_is_put_back_is_noticed_by_a_watch_that_knows_it(fresh, source, target):
    waiting = watch(target, max_lag=MaxLag(epochs=99))
    commit_to(source, 2)
    assert waiting.live().verdict == Ready(3)
    for version in (3, 4, 5):
        (source / "_delta_log" / f"{version:020}.json").unlink()
    commit_to(source, 9)
    broken = waiting.live().verdict
    assert isinstance(broken, Broken) and isinstance(broken.error, SourceReplaced)


def test_an_epoch_that_stops_the_build_is_seen_before_a_barrier_is(fresh, source, target):
    waiting = watch(target, max_lag=MaxLag(epochs=9))
    assert waiting.live().verdict == Ready(3)
    log = JsonLog(str(source))
    found = log.read(0).metadata
    log.land(Commit(log.head + 1, operation="ALTER", metadata=replace(found, configuration={})))
    for watcher in (waiting, watch(target, max_lag=MaxLag(epochs=9))):
        broken = watcher.live().verdict
        assert isinstance(broken, Broken) and isinstance(broken.error, FeedOff)
