"""The gate and the consumer's door, as tasks call them."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
from airflow.sdk.bases.operator import TRIGGER_FAIL_REPR, TriggerFailureReason
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferred

from airflow_backfill.core.errors import InvalidSpec, SourceUnavailable
from airflow_backfill.core.values.control import Verb
from airflow_backfill.ledger.reader import BuildReader
from airflow_backfill.operators.consume_log import ConsumeLogOperator
from airflow_backfill.operators.upstream import UpstreamOperator
from airflow_backfill.sensors.await_epoch import AwaitEpochSensor
from airflow_backfill.sensors.await_finish import AwaitFinishSensor
from airflow_backfill.sensors.gate import GateSensor
from airflow_backfill.testing.launcher import run_here
from airflow_backfill.triggers.gate import GateTrigger
from airflow_backfill.watching.gate_watch import GateWatch
from airflow_backfill.watching.patience import PATIENCE_POLLS
from tests.airflow.launchers import run_later
from tests.airflow.without_spark import WHOLE, built, commit_to, foreign, order
from tests.failing import Away, Expiring


def gate(target, **options):
    return GateSensor(**{"task_id": "gate", "target": str(target), "poke_interval": 0, "timeout": 0} | options)


def door(target, **options):
    return AwaitFinishSensor(**{"task_id": "door", "target": str(target), "poke_interval": 0, "timeout": 0} | options)


def test_an_open_gate(context, source, target):
    built(source, target, "plan", "snapshot", "consume_log")
    assert gate(target).execute(context) == {"target": str(target), "build": None, "epoch": 3}


def test_a_gate_that_was_passed_stays_open(context, source, target):
    built(source, target, *WHOLE)
    order(target, Verb.HOLD)
    assert gate(target).execute(context)["epoch"] == 3


@pytest.mark.parametrize("deferrable", [False, True])
def test_a_closed_gate_gives_up_for_good_and_says_why(context, source, target, deferrable):
    built(source, target, "plan", "snapshot", "consume_log")
    order(target, Verb.HOLD)
    with pytest.raises(AirflowFailException, match=r"GATE_TIMEOUT.*the build is on hold"):
        gate(target, deferrable=deferrable).execute(context)
    assert context["task_state_store"]["waiting"] == ["the build is on hold"]
    assert context["task_state_store"]["failure"]["data"] == {"reasons": ["the build is on hold"]}


def test_a_deferred_gate_carries_its_deadline(context, source, target):
    built(source, target, "plan", "snapshot", "consume_log")
    order(target, Verb.HOLD)
    sensor = gate(target, deferrable=True, timeout=100)
    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute(context)
    deadline = deferred.value.trigger.deadline
    with pytest.raises(TaskDeferred) as again:
        sensor.resumed(context, event={"deadline": deadline})
    assert again.value.trigger.deadline == deadline
    with pytest.raises(AirflowFailException, match="GATE_TIMEOUT"):
        sensor.resumed(context, event={"deadline": 0})


def test_a_gate_tells_a_warning_before_it_waits(context, source, target):
    built(source, target, "plan", "snapshot", "consume_log")
    order(target, Verb.HOLD)
    commit_to(source, at=time.time() - 50)
    told = []
    sensor = gate(target, deferrable=True, timeout=100, warn_lag=timedelta(seconds=40), on_warning_callback=told.append)
    for _ in range(2):
        with pytest.raises(TaskDeferred) as deferred:
            sensor.execute(context)
    assert [one["warning"]["kind"] for one in told] == ["lag"]
    assert (deferred.value.trigger.warn_lag, list(deferred.value.trigger.known)) == (40, ["lag"])
    assert deferred.value.trigger.due() is False


def refresher(target, **options):
    return ConsumeLogOperator(**{"task_id": "consume_log", "target": str(target), "submit": run_here} | options)


def test_a_closed_gate_keeps_the_target_fresh(context, source, target):
    built(source, target, "plan", "snapshot", "consume_log")
    order(target, Verb.HOLD)
    sensor = gate(target, max_lag=1, consume_log=refresher(target, max_lag=1), timeout=9, deferrable=True)
    commit_to(source, 2)
    with pytest.raises(TaskDeferred) as waits:
        sensor.execute(context)
    assert (BuildReader(str(target)).state().applied, waits.value.trigger.due()) == (3, False)
    commit_to(source)
    assert waits.value.trigger.due()
    with pytest.raises(TaskDeferred):
        sensor.resumed(context, waits.value.trigger.serialize()[1])
    assert BuildReader(str(target)).state().applied == 6


def test_a_gate_without_the_task_before_it_only_waits(context, source, target):
    built(source, target, "plan", "snapshot", "consume_log")
    order(target, Verb.HOLD)
    commit_to(source, 9)
    with pytest.raises(AirflowFailException, match="GATE_TIMEOUT"):
        gate(target).execute(context)
    assert BuildReader(str(target)).state().applied == 3


@pytest.mark.parametrize("strategy", ["snapshot", "chain"])
def test_a_gate_leaves_a_snapshot_to_its_task_and_says_so_at_once(context, source, target, strategy):
    """The tasks before it were marked as done by hand: nobody would read the snapshot while the gate waits."""
    built(source, target, "plan", strategy=strategy)
    commit_to(source)
    with pytest.raises(AirflowFailException, match=r"NOT_ALLOWED_NOW.*clear the snapshot task"):
        gate(target, consume_log=refresher(target), timeout=100, deferrable=True).execute(context)


def test_a_gate_seals_a_snapshot_that_is_read(context, source, target):
    built(source, target, "plan", "snapshot")
    assert gate(target, consume_log=refresher(target), timeout=100, deferrable=True).execute(context)["epoch"] == 3


def test_a_closed_gate_lets_the_launcher_defer(context, source, target):
    built(source, target, "plan", "snapshot", "consume_log")
    order(target, Verb.HOLD)
    commit_to(source, 3)
    sensor = gate(
        target, max_lag=1, consume_log=refresher(target, max_lag=1, submit=run_later), timeout=100, deferrable=True
    )
    with pytest.raises(TaskDeferred) as launched:
        sensor.execute(context)
    assert launched.value.method_name == "launcher_resumed"
    with pytest.raises(TaskDeferred) as waits:
        sensor.launcher_resumed(context, event="there")
    assert waits.value.method_name == "resumed"
    assert waits.value.trigger.deadline == context["task_state_store"]["deadline"]
    assert BuildReader(str(target)).state().applied == 6


@pytest.mark.parametrize("lost", [False, None, "damaged", ["damaged"]])
def test_a_gate_that_does_not_defer_may_have_a_launcher_that_does(context, source, target, lost):
    """Nor does it need what its state store remembers of it."""
    built(source, target, "plan", "snapshot", "consume_log")
    order(target, Verb.HOLD)
    commit_to(source, 3)
    sensor = gate(target, max_lag=1, consume_log=refresher(target, max_lag=1, submit=run_later), timeout=100)
    sensor.deferrable = lost is not False
    context["task_state_store"]["deadline"] = time.time() - 9  # of the try before
    with pytest.raises(TaskDeferred) as launched:
        sensor.execute(context)
    if lost is not False:
        context["task_state_store"]["deadline"] = lost
    assert launched.value.method_name == "launcher_resumed"
    with pytest.raises(TaskDeferred) as waits:
        sensor.launcher_resumed(context, event="there")
    assert waits.value.trigger.deadline == context["task_state_store"]["deadline"] > time.time() + 90
    assert BuildReader(str(target)).state().applied == 6


LOST = {"error": TriggerFailureReason.TRIGGER_TIMEOUT}


def test_a_trigger_that_did_not_run_at_its_deadline_is_done_without(context, source, target):
    """No triggerer ran, or it hung: the task looks itself, and its error has a code and the reasons."""
    built(source, target, "plan", "snapshot", "consume_log")
    order(target, Verb.HOLD)
    context["task_state_store"]["deadline"] = time.time() - 9
    with pytest.raises(AirflowFailException, match=r"GATE_TIMEOUT.*waiting: the build is on hold"):
        gate(target).resume_execution(TRIGGER_FAIL_REPR, LOST, context)
    with pytest.raises(AirflowFailException, match=r"GATE_TIMEOUT.*waiting: the build is in phase consume_log"):
        door(target, timeout=100).resume_execution(TRIGGER_FAIL_REPR, LOST, context)
    order(target, Verb.RELEASE)
    assert gate(target).resume_execution(TRIGGER_FAIL_REPR, LOST, context)["epoch"] == 3


def test_an_application_whose_trigger_was_lost_ends_no_wait(context, source, target):
    built(source, target, "plan", "snapshot", "consume_log")
    order(target, Verb.HOLD)
    context["task_state_store"]["deadline"] = deadline = time.time() + 50
    with pytest.raises(TaskDeferred) as waits:
        gate(target).resume_execution(TRIGGER_FAIL_REPR, LOST, context)
    assert waits.value.trigger.deadline == deadline


def test_a_trigger_has_time_to_start_before_it_counts_as_lost(context, source, target):
    with pytest.raises(TaskDeferred) as waits:
        door(target, deferrable=True, timeout=100).execute(context)
    assert waits.value.timeout > timedelta(seconds=100 + 60)


@pytest.mark.parametrize("code", ["CANCELLED", "TARGET_DIVERGED"])
def test_a_build_that_cannot_go_on_fails_for_good(context, source, target, code):
    built(source, target, "plan", "snapshot", "consume_log", "cancel")
    if code == "TARGET_DIVERGED":
        foreign(target)
    with pytest.raises(AirflowFailException, match=code):
        gate(target).execute(context)
    with pytest.raises(AirflowFailException, match=code):
        door(target).execute(context)


def test_a_cancel_ends_a_held_consumer_of_the_log_for_good(context, source, target):
    built(source, target, "plan", "snapshot", "consume_log")
    order(target, Verb.HOLD)
    operator = refresher(target, max_lag=0, deferrable=True)
    with pytest.raises(TaskDeferred) as waits:
        operator.execute(context)
    assert not waits.value.trigger.due()
    order(target, Verb.CANCEL)
    assert waits.value.trigger.due()
    with pytest.raises(AirflowFailException, match="CANCELLED"):
        operator.resumed(context)


def test_the_door_returns_the_first_epoch_to_follow(context, source, target):
    built(source, target, *WHOLE)
    commit_to(source, 2)
    built(source, target, "upstream")
    assert door(target).execute(context) == 4


@pytest.mark.parametrize("done", range(len(WHOLE)))
def test_nothing_but_the_committed_hand_off_opens_the_door(context, source, target, done):
    if done:
        built(source, target, *WHOLE[:done])
    with pytest.raises(AirflowFailException, match="GATE_TIMEOUT"):
        door(target).execute(context)


def awaited(target, epoch, **options):
    given = {"task_id": "epoch", "target": str(target), "epoch": epoch, "poke_interval": 0, "timeout": 0}
    return AwaitEpochSensor(**given | options)


def test_an_epoch_is_awaited_with_its_rows(context, source, target):
    built(source, target, "plan", "snapshot")
    with pytest.raises(AirflowFailException, match=r"GATE_TIMEOUT.*epoch 3 is not applied yet .last: None"):
        awaited(target, 3).execute(context)
    built(source, target, "consume_log")
    assert awaited(target, "3").execute(context) == awaited(target, 2).execute(context) == 3
    with pytest.raises(AirflowFailException, match=r"GATE_TIMEOUT.*epoch 4 is not applied yet .last: 3"):
        awaited(target, 4).execute(context)


def test_an_epoch_that_a_chain_has_announced_is_seen_before_its_rows_are_there(context, source, target):
    built(source, target, "plan", strategy="chain")
    assert awaited(target, 3, reached="seen").execute(context) == 3
    with pytest.raises(AirflowFailException, match="GATE_TIMEOUT"):
        awaited(target, 3, reached="applied").execute(context)


def test_of_other_strategies_an_epoch_is_seen_with_its_rows(context, source, target):
    built(source, target, "plan", "snapshot")
    with pytest.raises(AirflowFailException, match="GATE_TIMEOUT"):
        awaited(target, 3, reached="seen").execute(context)
    built(source, target, "consume_log")
    assert awaited(target, 3, reached="seen").execute(context) == 3


@pytest.mark.parametrize(("options", "field"), [({"reached": "sen"}, "reached"), ({"epoch": "soon"}, "epoch")])
def test_what_is_no_epoch_is_refused(context, source, target, options, field):
    with pytest.raises((InvalidSpec, AirflowFailException), match=rf"SPEC_INVALID.*{field}"):
        awaited(target, **{"epoch": 3} | options).execute(context)


def test_the_door_waits_for_the_build_it_was_told(context, source, target):
    built(source, target, *WHOLE)
    with pytest.raises(AirflowFailException, match=r"GATE_TIMEOUT.*not to another"):
        door(target, build="another").execute(context)


@pytest.mark.parametrize("kind", ["gate", "gate with its consumer", "consumer"])
@pytest.mark.parametrize("silent", [PATIENCE_POLLS - 1, PATIENCE_POLLS])
def test_a_store_that_is_away_for_a_while_costs_no_retry(context, source, target, monkeypatch, kind, silent):
    built(source, target, "plan", "snapshot", "consume_log")
    consumer = refresher(target, poke_interval=0.05)
    read = "live" if kind == "consumer" else "gate"
    monkeypatch.setattr(GateWatch, read, Away(silent).wrapped(getattr(GateWatch, read)))
    task = {
        "gate": gate(target, timeout=60),
        "gate with its consumer": gate(target, timeout=60, consume_log=consumer),
        "consumer": consumer,
    }[kind]
    if silent == PATIENCE_POLLS:
        with pytest.raises(AirflowException, match=r"SOURCE_UNAVAILABLE.*away"):
            task.execute(context)
    else:
        assert task.execute(context)["epoch"] == 3


@pytest.mark.parametrize("silent", [PATIENCE_POLLS - 1, PATIENCE_POLLS])
def test_a_closed_gate_bears_it_where_it_looks_for_its_consumer_too(context, source, target, monkeypatch, silent):
    built(source, target, "plan", "snapshot", "consume_log")
    order(target, Verb.HOLD)
    commit_to(source, 3)
    monkeypatch.setattr(GateWatch, "live", Away(silent).wrapped(GateWatch.live))
    run = ConsumeLogOperator.run_application

    def consumed(task, context):
        run(task, context)
        order(target, Verb.RELEASE)

    monkeypatch.setattr(ConsumeLogOperator, "run_application", consumed)
    sensor = gate(target, max_lag=1, timeout=60, consume_log=refresher(target, max_lag=1))
    if silent == PATIENCE_POLLS:
        with pytest.raises(AirflowException, match=r"SOURCE_UNAVAILABLE.*away"):
            sensor.execute(context)
    else:
        assert sensor.execute(context)["epoch"] == 6


def test_a_wait_may_last_longer_than_the_session_token_of_its_connection(context, source, target, monkeypatch):
    built(source, target, "plan", "snapshot", "consume_log")
    order(target, Verb.HOLD)
    lake = Expiring(monkeypatch)
    sensor = gate(target, ledger_conn_id="lake", consume_log=refresher(target, ledger_conn_id="lake"))
    trigger = GateTrigger(watch=sensor.watch.to_json(), poke_interval=9.0)
    assert not sensor.poke(context).is_done and not trigger.due()
    lake.rotate()
    assert not sensor.poke(context).is_done and not trigger.due()
    order(target, Verb.RELEASE)
    lake.rotate()
    assert sensor.poke(context).is_done and trigger.due()


@pytest.mark.parametrize("options", [{"deferrable": True}, {"mode": "reschedule"}])
def test_who_has_a_trigger_or_a_process_for_each_poll_does_not_wait_for_the_store_itself(
    context, source, target, monkeypatch, options
):
    built(source, target, "plan", "snapshot", "consume_log")
    monkeypatch.setattr(GateWatch, "gate", Away(1).wrapped(GateWatch.gate))
    with pytest.raises(SourceUnavailable, match="away"):
        gate(target, **options).poke(context)


@pytest.mark.parametrize(
    ("kind", "field", "wrong"),
    [
        (ConsumeLogOperator, "poke_interval", 0),
        (ConsumeLogOperator, "poke_interval", -1),
        (ConsumeLogOperator, "poke_interval", "30"),
        (ConsumeLogOperator, "warn_lag", "1 hour"),
        (GateSensor, "warn_lag", float("nan")),
        (UpstreamOperator, "max_runtime", "1h"),
        (UpstreamOperator, "max_runtime", timedelta(-1)),
        (UpstreamOperator, "max_runtime", timedelta.max),
    ],
)
def test_what_is_no_duration_is_found_when_the_dag_is_built(target, kind, field, wrong):
    with pytest.raises(InvalidSpec, match=f"{field}: must be a duration"):
        kind(task_id="t", target=str(target), **{field: wrong})


def test_a_duration_may_be_a_number_of_seconds_as_in_airflow(context, source, target):
    built(source, target, "plan", "snapshot", "consume_log")
    order(target, Verb.HOLD)
    options = {"poke_interval": timedelta(minutes=1), "warn_lag": 90, "deferrable": True}
    with pytest.raises(TaskDeferred) as waits:
        refresher(target, **options).execute(context)
    assert (waits.value.trigger.poke_interval, waits.value.trigger.warn_lag) == (60, 90)
    assert UpstreamOperator(task_id="t", target="/t", max_runtime=60).arguments()[-2:] == ["--max-runtime", "60.0"]


@pytest.mark.parametrize("wait", ["gate", "consume_log"])
def test_an_error_that_only_the_triggerer_meets_is_told(context, source, target, capsys, wait):
    """Such as that of a triggerer without the mount: it would send the task to look again and again, for no reason."""
    built(source, target, "plan", "snapshot", "consume_log")
    order(target, Verb.HOLD)
    task = {"gate": gate, "consume_log": refresher}[wait](target, deferrable=True)
    event = {"deadline": time.time() + 90}
    for told in ({}, {"error": "[SOURCE_NOT_DELTA] /mnt/orders is not a Delta table"}):
        with pytest.raises(TaskDeferred):
            task.resumed(context, event={**event, **told})
        assert ("the triggerer met [SOURCE_NOT_DELTA] /mnt/orders" in capsys.readouterr().out) is bool(told)
