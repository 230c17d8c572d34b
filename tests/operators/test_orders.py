"""Orders that an application carries out, as tasks of Airflow."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_backfill.core.errors import InvalidSpec
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.core.values.phase import Phase
from airflow_backfill.core.values.signature import Signature
from airflow_backfill.ledger.control_folder import location_beside
from airflow_backfill.ledger.reader import BuildReader
from airflow_backfill.operators.cancel import CancelOperator
from airflow_backfill.operators.explain import ExplainOperator
from airflow_backfill.operators.prove import ProveOperator
from airflow_backfill.operators.recover import RecoverOperator
from airflow_backfill.operators.repair import RepairOperator
from airflow_backfill.testing.launcher import run_here
from tests.airflow.launchers import dies, loses_touch
from tests.airflow.without_spark import built, foreign, order
from tests.cli.schema import check

WHY = "a test"


def run(context, kind, target, submit=run_here, **options):
    return kind(task_id="t", target=str(target), submit=submit, **options).execute(context)


def drawn(target):
    return [document for _, document in BuildReader(str(target)).control.attempts()]


def test_a_cancel_ends_the_build_and_says_who_ended_it(context, source, target):
    build = built(source, target, "plan").plan.build
    assert run(context, CancelOperator, target, by="ann", why=WHY)["phase"] == "cancelled"
    reader = BuildReader(str(target))
    ((_, command),) = reader.commands(build)
    assert (command, command.signed.by) == (Command(Verb.CANCEL), "ann")
    assert reader.state().phase is Phase.CANCELLED
    assert (drawn(target)[-1]["task"], drawn(target)[-1]["by"], drawn(target)[-1]["why"]) == ("cancel", "ann", WHY)


def test_a_cancel_with_drop_removes_the_target_and_what_lies_beside_it(context, source, target):
    built(source, target, "plan", "snapshot")
    assert run(context, CancelOperator, target, drop="True", why=WHY)["dropped"] == [str(target)]
    assert not target.exists() and not Path(location_beside(str(target)), "commands").exists()
    before = len(drawn(target))
    assert run(context, CancelOperator, target, drop="True", why=WHY)["dropped"] == [str(target)], "cleared"
    assert len(drawn(target)) == before


def test_a_drop_that_was_ordered_before_is_carried_out(context, source, target):
    state = built(source, target, "plan")
    signed = Signature("ann", "wrong key")
    BuildReader(str(target)).control.order(state.plan.build, Command(Verb.CANCEL, drop=True, signed=signed))
    assert run(context, CancelOperator, target, why=WHY)["dropped"] == [str(target)]


def test_a_build_that_cannot_be_read_is_dropped_and_not_merely_cancelled(context, source, target):
    built(source, target, "plan", "snapshot")
    foreign(target)
    with pytest.raises(AirflowFailException, match="TARGET_DIVERGED"):
        run(context, CancelOperator, target)
    assert target.exists()
    assert run(context, CancelOperator, target, drop=True, why=WHY)["dropped"] == [str(target)]


def test_a_drop_that_is_neither_true_nor_false_cancels_nothing(context, source, target):
    state = built(source, target, "plan")
    with pytest.raises(AirflowFailException, match="drop: must be true or false"):
        run(context, CancelOperator, target, drop="yes", why=WHY)
    assert BuildReader(str(target)).commands(state.plan.build) == []
    assert run(context, CancelOperator, target, drop=" TRUE", why=WHY)["dropped"] == [str(target)]


def test_a_cancelled_build_is_not_cancelled_again(context, source, target):
    built(source, target, "plan", "cancel")
    before = len(drawn(target))
    assert run(context, CancelOperator, target) == {"target": str(target)}
    assert len(drawn(target)) == before


def test_a_finished_build_is_not_cancelled(context, source, target):
    built(source, target, "plan", "snapshot", "consume_log", "catch_up", "verify", "finish")
    before = len(drawn(target))
    with pytest.raises(AirflowFailException, match="NOT_ALLOWED_NOW"):
        run(context, CancelOperator, target, drop=True, why=WHY)
    assert target.exists() and len(drawn(target)) == before


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (CancelOperator, {"drop": True}),
        (RepairOperator, {}),
        (RecoverOperator, {"epoch": 3}),
        (RepairOperator, {"why": ""}),
    ],
)
def test_nothing_is_destroyed_without_a_reason(context, source, target, kind, options):
    state = built(source, target, "plan", "snapshot", "consume_log", "catch_up")
    before = len(drawn(target))
    with pytest.raises(AirflowFailException, match="why"):
        run(context, kind, target, **options)
    assert BuildReader(str(target)).state() == state and len(drawn(target)) == before


def test_a_repair_that_is_retried_is_done_once(context, source, target):
    built(source, target, "plan", "snapshot", "consume_log", "catch_up")
    with pytest.raises(AirflowException, match="the cluster is full"):
        run(context, RepairOperator, target, submit=dies, why=WHY)
    context["ti"].try_number = 2
    first = run(context, RepairOperator, target, submit=dies, why=WHY)
    version = BuildReader(str(target)).state().newest.version
    assert run(context, RepairOperator, target, submit=dies, why=WHY) == first
    assert BuildReader(str(target)).state().newest.version == version


def test_a_launcher_that_loses_touch_changes_nothing(context, source, target):
    built(source, target, "plan")
    assert run(context, CancelOperator, target, submit=loses_touch)["phase"] == "cancelled"


def test_a_repair_whose_time_has_not_come_starts_nothing(context, source, target):
    built(source, target, "plan")
    with pytest.raises(AirflowFailException, match="NOT_ALLOWED_NOW"):
        run(context, RepairOperator, target, why=WHY)
    assert len(drawn(target)) == 1


def test_a_recovery_lives_a_foreign_commit_down(context, source, target):
    built(source, target, "plan", "snapshot", "consume_log")
    foreign(target)
    assert run(context, RecoverOperator, target, epoch="3", why=WHY)["phase"] == "catch_up"
    assert BuildReader(str(target)).state().handoff == 3


@pytest.mark.parametrize("epoch", ["-1", "newest", "٣x"])
def test_what_is_no_epoch_recovers_nothing(context, source, target, epoch):
    built(source, target, "plan")
    with pytest.raises(AirflowFailException, match="epoch"):
        run(context, RecoverOperator, target, epoch=epoch, why=WHY)
    assert len(drawn(target)) == 1


def test_a_proof_returns_the_certificate_and_disturbs_nobody(context, source, target):
    state = built(source, target, "plan", "snapshot", "consume_log")
    order(target, Verb.HOLD)
    assert run(context, ProveOperator, target)["epoch"] == 3
    assert BuildReader(str(target)).state() == state
    with pytest.raises(InvalidSpec, match="row_hash"):
        ProveOperator(task_id="t", target=str(target), row_hash="md5")


def test_an_explanation_lies_beside_the_target_and_the_task_returns_no_value_of_the_row(context, source, target):
    state = built(source, target, "plan", "snapshot", "consume_log")
    found = run(context, ExplainOperator, target, key='["id=42"]', since="None", by="ann")
    assert found.keys() == {"target", "build", "verdict", "explanation"} and "42" not in json.dumps(found["verdict"])
    control = BuildReader(str(target)).control
    stored = control.explanation(found["explanation"])
    check("explain", stored)
    assert stored["key"] == {"id": "42"} and BuildReader(str(target)).state() == state
    assert (drawn(target)[-1]["task"], drawn(target)[-1]["by"]) == ("explain", "ann")
    assert control.explanation(found["explanation"] - 1) is None


NO_KEYS = ("", "id=42", "[]", ["id"], 5)


@pytest.mark.parametrize("wrong", [*({"key": key} for key in NO_KEYS), {"since": "-1"}])
def test_what_is_no_key_and_no_epoch_is_not_explained(context, source, target, wrong):
    built(source, target, "plan")
    with pytest.raises(AirflowFailException, match=next(iter(wrong))):
        run(context, ExplainOperator, target, **{"key": ["id=42"], **wrong})
    assert len(drawn(target)) == 1
