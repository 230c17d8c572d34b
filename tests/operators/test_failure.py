"""From coded errors to Airflow's decisions, for every code there is."""

from __future__ import annotations

import json

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_backfill.core import errors
from airflow_backfill.core.errors import BackfillError, error_in, kinds
from airflow_backfill.core.reports.way_out import WAYS_OUT
from airflow_backfill.failure import FAILURE, decided
from tests.airflow.task import Store

KINDS = sorted(kinds(), key=lambda kind: kind.code)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.code)
def test_every_code_fails_for_good_or_is_tried_again(kind, context, caplog):
    with pytest.raises(AirflowException) as raised, decided(context):
        raise kind("what happened", number=1)
    assert isinstance(raised.value, AirflowFailException) is not kind.retry
    assert str(raised.value) == f"[{kind.code}] what happened"
    assert context["task_state_store"][FAILURE]["data"] == {"number": 1}
    assert WAYS_OUT[kind.code] in caplog.text and ("Airflow tries again" in caplog.text) is kind.retry


def test_the_last_try_is_said_to_be_the_last(context, caplog):
    context["ti"].try_number = context["ti"].max_tries + 1
    with pytest.raises(AirflowException), decided(context):
        raise errors.TargetBusy("another writer has it")
    assert context[FAILURE]["way_out"].startswith("This was the last try") and "tries again" not in caplog.text


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
