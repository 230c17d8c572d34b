"""Applications that another operator than spark-submit starts: its silence, its errors, and its trigger's."""

from __future__ import annotations

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk.bases.operator import TRIGGER_FAIL_REPR, TriggerFailureReason
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferred

from airflow_backfill.core.reports.attempt_status import Life
from airflow_backfill.core.values.control import Verb
from airflow_backfill.operators.consume_log import ConsumeLogOperator
from airflow_backfill.operators.served import Served
from airflow_backfill.operators.snapshot import SnapshotOperator
from airflow_backfill.sensors.gate import GateSensor
from airflow_backfill.testing.applications import main
from airflow_backfill.testing.launcher import RunHere
from tests.airflow.launchers import run_later
from tests.airflow.without_spark import built, commit_to, order
from tests.failing import Expiring
from tests.operators.test_application import newest_of


@pytest.mark.parametrize("submit", [None, run_later])
def test_a_template_that_gives_no_mapping_of_settings(context, source, target, submit):
    built(source, target, "plan")
    with pytest.raises(
        AirflowFailException, match=r"SPEC_INVALID\] conf: must be a mapping .*, and is a str; a template"
    ):
        SnapshotOperator(task_id="t", target=str(target), submit=submit, conf="{'a.key': 'canary'}").execute(context)


def test_an_application_may_last_longer_than_the_session_token_of_its_tasks_connection(
    context, source, target, monkeypatch
):
    built(source, target, "plan")
    lake = Expiring(monkeypatch)

    class Lasts(RunHere):
        def execute(self, context):
            super().execute(context)
            lake.rotate()

    operator = SnapshotOperator(
        task_id="t",
        target=str(target),
        ledger_conn_id="lake",
        submit=lambda launch: Lasts(task_id="t", launch=launch),
    )
    assert operator.execute(context)["epoch"] == 3
    assert context["task_state_store"]["progress"]["phase_percent"] == 100.0


def test_an_application_without_a_word_is_told_of_with_what_may_be_wrong(context, source, target):
    built(source, target, "plan")
    silent = lambda launch: EmptyOperator(task_id="t")  # noqa: E731
    with pytest.raises(AirflowException, match=r"APPLICATION_FAILED.*launcher reported success; either that does not"):
        SnapshotOperator(task_id="t", target=str(target), submit=silent).execute(context)
    assert (newest_of(target).outcome, newest_of(target).retry) == ("APPLICATION_FAILED", True)


FAILED = {"error": TriggerFailureReason.TRIGGER_FAILURE.value, "traceback": ["the cluster has answered 502"]}


@pytest.mark.parametrize("done", [True, False])
def test_a_trigger_of_the_launcher_that_fails_hides_no_outcome(context, source, target, done):
    built(source, target, "plan")
    operator = SnapshotOperator(task_id="t", target=str(target), submit=run_later)
    with pytest.raises(TaskDeferred):
        operator.execute(context)
    assert newest_of(target).life is Life.STARTING
    if done:
        me = operator.last(context)
        main("snapshot", ["--target", str(target), "--generation", str(me.generation), "--attempt", me.name])
        assert operator.resume_execution(TRIGGER_FAIL_REPR, FAILED, context)["epoch"] == 3
    else:
        with pytest.raises(AirflowException, match=r"APPLICATION_FAILED.*Trigger failure"):
            operator.resume_execution(TRIGGER_FAIL_REPR, FAILED, context)
        assert (newest_of(target).outcome, newest_of(target).retry) == ("APPLICATION_FAILED", True)
    assert (newest_of(target).generation, newest_of(target).life) == (2, Life.ENDED)


@pytest.mark.parametrize("done", [True, False])
def test_nor_does_that_of_an_application_which_the_gate_has_started(context, source, target, done):
    built(source, target, "plan", "snapshot", "consume_log")
    order(target, Verb.HOLD)
    commit_to(source, 3)
    consume_log = ConsumeLogOperator(task_id="c", target=str(target), max_lag=1, submit=run_later)
    gate = GateSensor(task_id="t", target=str(target), max_lag=1, consume_log=consume_log, deferrable=True)
    with pytest.raises(TaskDeferred):
        gate.execute(context)
    if done:
        me = consume_log.last(context)
        lag = ["--max-lag-epochs", "1"]
        main("consume_log", ["--target", str(target), "--generation", str(me.generation), "--attempt", me.name, *lag])
        with pytest.raises(TaskDeferred) as waits:
            gate.resume_execution(TRIGGER_FAIL_REPR, FAILED, context)
        assert (waits.value.method_name, waits.value.trigger.due()) == ("resumed", False)
    else:
        with pytest.raises(AirflowException, match=r"APPLICATION_FAILED.*Trigger failure"):
            gate.resume_execution(TRIGGER_FAIL_REPR, FAILED, context)
        assert context["task_state_store"]["failure"]["code"] == "APPLICATION_FAILED"
        assert (newest_of(target).outcome, newest_of(target).life) == ("APPLICATION_FAILED", Life.ENDED)


def test_a_coded_error_of_a_launcher_is_the_task_s(context, source, target, tmp_path):
    built(source, target, "plan")
    served = Served(str(tmp_path / "service"), deferrable=False)
    operator = SnapshotOperator(task_id="t", target=str(target), submit=served, conf={"spark.executor.memory": "9g"})
    with pytest.raises(AirflowFailException, match=r"SPEC_INVALID\] conf: .*set conf of the ServiceOperator"):
        operator.execute(context)
    found = newest_of(target)
    assert (found.outcome, found.lost) == ("SPEC_INVALID", True)
