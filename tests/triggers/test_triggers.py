"""Triggers: all they know is in ``serialize``, and they fire when there is something to do."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from contextlib import suppress
from importlib import import_module

import pytest

from airflow_backfill.core.errors import Cancelled, SourceUnavailable
from airflow_backfill.core.gates.max_lag import MaxLag
from airflow_backfill.core.values.control import Verb
from airflow_backfill.ledger.clock import now_ms
from airflow_backfill.notifications.warnings import AGAIN_MS
from airflow_backfill.triggers import poll
from airflow_backfill.triggers.admission import AdmissionTrigger
from airflow_backfill.triggers.epoch import EpochTrigger
from airflow_backfill.triggers.finish import FinishTrigger
from airflow_backfill.triggers.gate import GateTrigger
from airflow_backfill.triggers.lag import LagTrigger
from airflow_backfill.triggers.request import RequestTrigger
from airflow_backfill.watching.gate_watch import GateWatch
from airflow_backfill.watching.patience import PATIENCE_POLLS
from airflow_backfill.watching.request_watch import RequestWatch
from tests.airflow.without_spark import built, commit_to, foreign, long_ago, make_source, order

SOON = 30
NOW = now_ms()


def copied(trigger):
    """The trigger as a triggerer makes it."""
    path, arguments = trigger.serialize()
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)(**json.loads(json.dumps(arguments)))


async def first(trigger):
    async for event in trigger.run():
        return event.payload


def fire(trigger, until=SOON):
    return asyncio.run(asyncio.wait_for(first(trigger), until))


def watch(target):
    return GateWatch(str(target), MaxLag(epochs=1)).to_json()


def gate(target, **options):
    return GateTrigger(watch=watch(target), poke_interval=0.05, **options)


def lag(target, **options):
    return LagTrigger(watch=watch(target), poke_interval=0.05, **options)


def finish(target, **options):
    return FinishTrigger(target=str(target), build=None, ledger_conn_id=None, poke_interval=0.05, **options)


def epoch(target, awaited=4, reached="applied"):
    common = {"target": str(target), "build": None, "ledger_conn_id": None, "poke_interval": 0.05}
    return EpochTrigger(**common, epoch=awaited, reached=reached)


def admission(target):
    common = {"target": str(target), "build": None, "ledger_conn_id": None, "poke_interval": 0.05}
    return AdmissionTrigger(**common, max_lag=(3, None))


def request(target):
    watch = RequestWatch(str(target), "request", 900.0, None).to_json()
    return RequestTrigger(watch=watch, poke_interval=0.05)


@pytest.mark.parametrize("make", [gate, lag, finish, epoch, admission, request])
def test_a_copy_is_the_same(target, make):
    trigger = make(target)
    assert copied(trigger).serialize() == trigger.serialize()


def released(target):
    """What triggers of released versions have left in Airflow's database, while their tasks wait."""
    watch = {"target": target, "max_lag": [1, None], "build": None, "window": ["00:00:00", "23:59:59", "UTC"]}
    watch |= {"approval": None, "ledger_conn_id": None}
    polls = {"poke_interval": 0.05, "deadline": None}
    build = {"target": target, "build": None, "ledger_conn_id": None, **polls}
    return {
        "0.1": {
            "airflow_backfill.triggers.gate.GateTrigger": {"watch": watch, **polls},
            "airflow_backfill.triggers.lag.LagTrigger": {"watch": watch, **polls},
            "airflow_backfill.triggers.finish.FinishTrigger": build,
            "airflow_backfill.triggers.epoch.EpochTrigger": {**build, "epoch": 3, "reached": "applied"},
            "airflow_backfill.triggers.admission.AdmissionTrigger": {**build, "max_lag": [3, None]},
        }
    }


@pytest.mark.parametrize("version", released(""))
def test_a_wait_that_an_older_version_began_goes_on(source, target, version):
    """Otherwise an upgrade of the package costs each task that waits a retry, and one without retries fails."""
    built(source, target, "plan", "snapshot", "consume_log", "catch_up", "verify", "finish")
    for path, arguments in released(str(target))[version].items():
        module, _, name = path.rpartition(".")
        assert fire(getattr(import_module(module), name)(**arguments)) == {"deadline": None}, path
    assert GateWatch.from_json({**watch(target), "approval": ["d", "r", "t"]}).approval.map_index == -1


@pytest.mark.parametrize("make", [gate, lag, finish, epoch, admission, request])
def test_a_triggerer_outlives_arguments_that_another_version_wrote(target, make):
    """A triggerer fails the wait for a TypeError of a constructor. Any other error ends it, with all waits of all DAGs,
    each time it starts.
    """
    path, arguments = make(target).serialize()
    module, _, name = path.rpartition(".")
    kind = getattr(import_module(module), name)
    for argument in arguments:
        for odd in (None, 1, "odd", ["odd"], {"odd": 1}, [["odd", 1]]):
            with suppress(TypeError):
                kind(**{**arguments, argument: odd})


def test_a_wait_goes_on_whose_version_kept_no_times_of_its_warnings(source, target):
    built(source, target, "plan", "snapshot", "consume_log", "catch_up", "verify", "finish")
    assert fire(copied(gate(target, known=["lag"]))) == {"deadline": None}


@pytest.mark.parametrize("make", [gate, lag])
def test_fires_on_release(source, target, make):
    built(source, target, "plan", "snapshot", "consume_log")
    order(target, Verb.HOLD)
    trigger = copied(make(target))
    with pytest.raises(asyncio.TimeoutError):
        fire(trigger, until=0.5)
    order(target, Verb.RELEASE)
    assert fire(trigger) == {"deadline": None}


def test_never_looks_at_once(source, target):
    """Airflow fails a task that goes on before the scheduler has heard that it paused. A triggerer whose clock is ahead
    would send it back again and again.
    """
    built(source, target, "plan", "snapshot", "consume_log")
    for deadline in (None, time.time() - 3 * 3600):
        trigger = GateTrigger(watch=watch(target), poke_interval=5, deadline=deadline)
        with pytest.raises(asyncio.TimeoutError):
            fire(trigger, until=0.5)
    assert fire(copied(gate(target))) == {"deadline": None}, "the gate is open"


def test_fires_when_a_held_target_falls_behind(source, target):
    built(source, target, "plan", "snapshot", "consume_log")
    order(target, Verb.HOLD)
    commit_to(source, 3)
    assert fire(copied(lag(target))) == {"deadline": None}


def test_fires_on_the_hand_off(source, target):
    trigger = copied(finish(target))
    with pytest.raises(asyncio.TimeoutError):
        fire(trigger, until=0.5)
    built(source, target, "plan", "snapshot", "consume_log", "catch_up", "verify", "finish")
    assert fire(trigger) == {"deadline": None}


def test_fires_on_an_epoch(source, target):
    built(source, target, "plan", "snapshot", "consume_log")
    trigger = copied(epoch(target))
    with pytest.raises(asyncio.TimeoutError):
        fire(trigger, until=0.5)
    commit_to(source)
    built(source, target, "consume_log")
    assert fire(trigger) == {"deadline": None}


@pytest.mark.parametrize("make", [gate, lag, finish, epoch])
def test_fires_on_a_cancel(source, target, make):
    built(source, target, "plan", "snapshot", "consume_log", "cancel")
    assert fire(copied(make(target)))["deadline"] is None


@pytest.mark.parametrize("make", [gate, lag, finish, epoch])
def test_fires_for_an_error_of_the_build(source, target, make):
    built(source, target, "plan", "snapshot", "consume_log")
    foreign(target, "RESTORE", data_change=False)
    assert fire(copied(make(target)))["error"].startswith("[TARGET_DIVERGED]")


@pytest.mark.parametrize("make", [gate, finish])
def test_fires_at_the_deadline(source, target, make):
    built(source, target, "plan")
    deadline = time.time() + 0.3
    assert fire(copied(make(target, deadline=deadline))) == {"deadline": deadline}
    assert time.time() >= deadline


def test_an_error_that_is_not_the_builds_is_raised(source, target):
    built(source, target, "plan")
    broken = GateTrigger(watch={"target": str(target)}, poke_interval=0.05)
    with pytest.raises(KeyError):
        fire(broken)


class Answers(FinishTrigger):
    """A store that answers what it is told to."""

    answers: list

    def due(self):
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_a_store_that_does_not_answer_for_a_while_costs_the_task_no_retry(target):
    trigger = Answers(target=str(target), build=None, ledger_conn_id=None, poke_interval=0)
    silence = SourceUnavailable("the store is away")
    trigger.answers = [*[silence] * (PATIENCE_POLLS - 1), False, *[silence] * (PATIENCE_POLLS - 1), True, "not asked"]
    assert fire(trigger) == {"deadline": None} and trigger.answers == ["not asked"]
    trigger.answers = [False, *[silence] * PATIENCE_POLLS, "not asked"]
    assert fire(trigger) == {"deadline": None, "error": str(silence)} and trigger.answers == ["not asked"]
    trigger.answers = [False, Cancelled("by a person"), "not asked"]
    assert fire(trigger) == {"deadline": None, "error": "[CANCELLED] by a person"} and trigger.answers == ["not asked"]


class Hangs(FinishTrigger):
    """A store that does not answer before it is ``released``."""

    released: threading.Event

    def due(self):
        return self.released.wait(SOON)


def test_stores_that_hang_keep_no_other_build_waiting(source, target, monkeypatch):
    monkeypatch.setattr(poll, "SLOW_SECONDS", 0.01)
    built(source, target, "plan", "snapshot", "consume_log", "catch_up", "verify", "finish")
    Hangs.released = threading.Event()
    args = {"target": str(target), "build": None, "ledger_conn_id": None, "poke_interval": 0}

    async def fires():
        hanging = [asyncio.create_task(first(Hangs(**args))) for _ in range(3 * poll.AT_ONCE)]
        try:
            return await asyncio.wait_for(first(finish(target)), SOON / 3), [one.done() for one in hanging]
        finally:
            Hangs.released.set()

    found, ended = asyncio.run(fires())
    assert found == {"deadline": None} and not any(ended)


def test_many_copies_at_once_say_the_same(source, target):
    built(source, target, "plan", "snapshot", "consume_log")

    async def all_at_once():
        return await asyncio.gather(*(first(copied(gate(target))) for _ in range(8)))

    assert asyncio.run(all_at_once()) == [{"deadline": None}] * 8


@pytest.mark.parametrize("make", [gate, lag])
@pytest.mark.parametrize(
    ("kept", "known", "fires"),
    [
        ("interval 1 minutes", {}, True),
        ("interval 1 minutes", {"known": {"retention": NOW}}, False),
        ("interval 1 minutes", {"known": {"retention": NOW - AGAIN_MS}}, True),
        ("interval 1 weeks", {}, False),
        ("interval 1 weeks", {"warn_lag": 40}, True),
        ("interval 1 weeks", {"warn_lag": 40, "known": {"lag": NOW}}, False),
        ("interval 1 weeks", {"warn_lag": 40, "known": {"retention": NOW}}, True),
    ],
)
def test_fires_for_a_warning_that_its_task_has_not_told_for_a_day(tmp_path, target, make, kept, known, fires):
    source = make_source(tmp_path / "source", {"delta.deletedFileRetentionDuration": kept})
    built(source, target, "plan", "snapshot", "consume_log")
    order(target, Verb.HOLD)
    commit_to(source, at=time.time() - 50)
    assert copied(make(target, **known)).due() is fires


def test_fires_when_the_record_would_age_out_of_the_log(source, target):
    built(source, target, "plan", "snapshot", "consume_log")
    order(target, Verb.HOLD)
    long_ago(target)
    assert fire(copied(lag(target))) == {"deadline": None}
