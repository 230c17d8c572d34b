"""From coded errors to Airflow's decisions, for every code there is."""

from __future__ import annotations

import json

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_backfill.builds.status import status
from airflow_backfill.core import errors
from airflow_backfill.core.errors import BackfillError, error_in, kinds
from airflow_backfill.core.reports.way_out import WAYS_OUT
from airflow_backfill.failure import FAILURE, decided
from airflow_backfill.operators.snapshot import SnapshotOperator
from tests.airflow.launchers import loses_executors
from tests.airflow.task import Store
from tests.airflow.without_spark import built

KINDS = sorted(kinds(), key=lambda kind: kind.code)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.code)
def test_every_code_fails_for_good_or_is_tried_again(kind, context, caplog):
    with pytest.raises(AirflowException) as raised, decided(context):
        raise kind("what happened", number=1)
    assert isinstance(raised.value, AirflowFailException) is not kind.retry
    assert str(raised.value) == f"[{kind.code}] what happened"
    assert context["task_state_store"][FAILURE]["data"] == {"number": 1}
    assert WAYS_OUT[kind.code] in caplog.text and ("Airflow tries again" in caplog.text) is kind.retry


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.retry], ids=lambda kind: kind.code)
def test_on_the_last_try_nobody_is_told_to_wait_for_another(kind, context, caplog):
    context["ti"].try_number = 4
    with pytest.raises(AirflowException), decided(context):
        raise kind("what happened")
    assert f"{kind.code}: {context[FAILURE]['way_out']}" in caplog.text
    assert "No retry is left: remove the cause, then clear the task" in context[FAILURE]["way_out"]
    assert "tries again" not in caplog.text


def test_a_build_whose_last_try_failed_needs_a_person(context, source, target):
    built(source, target, "plan")
    operator = SnapshotOperator(task_id="t", target=str(target), submit=loses_executors)
    for try_number, needed in ((3, False), (4, True)):
        context["ti"].try_number = try_number
        with pytest.raises(AirflowException):
            operator.execute(context)
        health = status(str(target))["health"]
        assert health["needs_attention"] is needed, health
    assert health["way_out"] == context[FAILURE]["way_out"]


def test_a_state_store_that_fails_hides_no_error(context):
    class Down(Store):
        def set(self, key, value, *, retention=None):
            raise ConnectionError("the state store does not answer")

    context["task_state_store"] = Down()
    with pytest.raises(AirflowFailException, match="TARGET_DIVERGED"), decided(context):
        raise errors.TargetDiverged("somebody has written")
    assert context[FAILURE]["code"] == "TARGET_DIVERGED"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.code)
def test_an_outcome_gives_its_error_back(kind):
    outcome = json.loads(json.dumps({**kind("what happened", number=1).to_json(), "attempt": "a"}))
    error = error_in(outcome)
    assert type(error) is kind
    assert (error.message, error.data) == ("what happened", {"number": 1})


@pytest.mark.parametrize(("retry", "kind"), [(True, errors.ApplicationFailed), (False, BackfillError)])
def test_a_code_of_a_newer_version_keeps_its_word_about_retries(retry, kind):
    error = error_in({"code": "NEVER_HEARD_OF", "message": "m", "retry": retry, "data": {}})
    assert type(error) is kind
    assert error.retry is retry


def test_other_errors_are_left_alone(context):
    with pytest.raises(ZeroDivisionError), decided(context):
        _ = 1 / 0
    assert context["task_state_store"] == {}
