"""A writer's wait for a build that is behind."""

from __future__ import annotations

import pytest
from airflow.sdk.bases.operator import TRIGGER_FAIL_REPR, TriggerFailureReason
from airflow.sdk.exceptions import TaskDeferred

from airflow_backfill.sensors.admission import AdmissionSensor
from tests.airflow.without_spark import WHOLE, built, commit_to, foreign


def admission(target, **options):
    return AdmissionSensor(
        **{"task_id": "may_write", "target": str(target), "poke_interval": 0, "max_lag": 2} | options
    )


def test_a_writer_waits_until_enough_of_the_log_is_applied_and_never_for_good(context, source, target):
    built(source, target, "plan", "snapshot", "consume_log")
    commit_to(source, 2)
    assert admission(target).execute(context) is True
    commit_to(source)
    assert admission(target, timeout=0).execute(context) is False
    assert context["task_state_store"]["waiting"] == ["3 epochs are pending after epoch 3"]
    waiting = admission(target, deferrable=True)
    with pytest.raises(TaskDeferred) as deferred:
        waiting.execute(context)
    assert waiting.resumed(context, event={"deadline": 0}) is False
    assert deferred.value.trigger.due() is False
    built(source, target, "consume_log")
    assert deferred.value.trigger.due() is True
    assert waiting.resumed(context, event={"deadline": deferred.value.trigger.deadline}) is True


@pytest.mark.parametrize("applications", [(), ("plan",), ("plan", "snapshot", "consume_log", "cancel"), WHOLE])
def test_a_writer_waits_for_no_other_build_and_for_no_error(context, source, target, applications):
    if applications:
        built(source, target, *applications)
    commit_to(source, 9)
    assert admission(target, max_lag=0).execute(context) is True
    if applications:
        foreign(target)
        assert admission(target, max_lag=0).execute(context) is True


def test_a_writer_is_not_held_back_for_good_by_a_trigger_that_was_lost(context, source, target):
    built(source, target, "plan", "snapshot", "consume_log")
    commit_to(source, 9)
    lost = {"error": TriggerFailureReason.TRIGGER_TIMEOUT}
    assert admission(target).resume_execution(TRIGGER_FAIL_REPR, lost, context) is False
