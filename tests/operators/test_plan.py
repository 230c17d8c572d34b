"""What the plan refuses in the worker: with its code, without Spark, and without a trace."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from deltalake import write_deltalake

from airflow_backfill.core.errors import NotPlanned, TargetExists
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.ledger.control_folder import ControlFolder
from airflow_backfill.operators.plan import PlanOperator
from airflow_backfill.operators.snapshot import SnapshotOperator
from airflow_backfill.testing.launcher import run_here
from tests.airflow.without_spark import built


def no_spark(launch):
    raise AssertionError(f"Spark was started: {launch}")


def plan(source, target, **options):
    fixed = {"submit": no_spark, "task_id": "plan", "build_name": "orders", "key": ["id"]}
    return PlanOperator(**fixed | {"source": str(source), "target": str(target)} | options)


def traces(folder: Path) -> str:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return hashlib.sha256(b"".join(bytes(path) + path.read_bytes() for path in files)).hexdigest()


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"build_name": ""}, "SPEC_INVALID"),
        ({"build_name": "{{ params.name }}"}, "SPEC_INVALID"),
        ({"build_name": "a/../b"}, "SPEC_INVALID"),
        ({"source": "{{ var.value.lake }}/orders"}, "SPEC_INVALID"),
        ({"source": "relative/path"}, "SPEC_INVALID"),
        ({"source": "s3a://key:secret@bucket/orders"}, "SPEC_INVALID"),
        ({"target": ""}, "SPEC_INVALID"),
        ({"target": "None"}, "SPEC_INVALID"),
        ({"key": []}, "SPEC_INVALID"),
        ({"key": "id"}, "SPEC_INVALID"),
        ({"key": ["id", "id"]}, "SPEC_INVALID"),
        ({"select": [1]}, "SPEC_INVALID"),
        ({"strategy": "snapshots"}, "SPEC_INVALID"),
        ({"new_columns": True}, "SPEC_INVALID"),
        ({"on_existing": "overwrite"}, "SPEC_INVALID"),
        ({"where": "x" * 70_000}, "SPEC_INVALID"),
    ],
)
def test_a_bad_request(context, source, target, tmp_path, options, code):
    before = traces(tmp_path)
    asked = {"source": source, "target": target} | options
    with pytest.raises(AirflowFailException):
        plan(**asked).execute(context)
    failure = context["task_state_store"]["failure"]
    assert (failure["code"], failure["retry"]) == (code, False)
    assert "secret" not in json.dumps(failure)
    assert traces(tmp_path) == before


def test_source_and_target_must_be_two_tables(context, source, target, tmp_path):
    before = traces(tmp_path)
    for other in (source, source / "inner", f"file://{source}/"):
        with pytest.raises(AirflowFailException, match="SPEC_INVALID"):
            plan(source, other).execute(context)
    assert traces(tmp_path) == before


def test_a_source_that_is_none(context, target, tmp_path):
    with pytest.raises(AirflowFailException, match=r"SOURCE_NOT_DELTA"):
        plan(tmp_path / "missing", target).execute(context)


def test_a_source_without_a_feed(context, target, tmp_path):
    write_deltalake(tmp_path / "plain", pa.table({"id": [1]}))
    with pytest.raises(AirflowFailException, match=r"SOURCE_FEED_OFF.*SET TBLPROPERTIES"):
        plan(tmp_path / "plain", target).execute(context)


def test_a_target_that_is_somebody_elses(context, source, target, tmp_path):
    write_deltalake(target, pa.table({"id": [1]}))
    before = traces(tmp_path)
    with pytest.raises(AirflowFailException, match="TARGET_EXISTS"):
        plan(source, target).execute(context)
    assert traces(tmp_path) == before


def test_a_target_of_another_build(context, source, target):
    built(source, target, "plan")
    with pytest.raises(AirflowFailException, match=r"TARGET_EXISTS.*'orders'"):
        plan(source, target, build_name="others").execute(context)


def test_another_spec_is_refused_with_the_difference(context, source, target):
    built(source, target, "plan")
    with pytest.raises(AirflowFailException, match="SPEC_CHANGED"):
        plan(source, target, where="id > 7").execute(context)
    assert context["task_state_store"]["failure"]["data"]["difference"] == {"where": [None, "id > 7"]}


def test_an_existing_build_goes_on_without_spark(context, source, target):
    state = built(source, target, "plan", "snapshot")
    assert plan(source, target).execute(context)["build"] == state.plan.build


def test_a_finished_build_needs_its_source_no_more(context, source, target):
    built(source, target, "plan", "snapshot", "consume_log", "catch_up", "verify", "finish")
    shutil.rmtree(source)
    assert plan(source, target).execute(context)["certificate"]["epoch"] == 3


def test_an_existing_build_fails_if_that_was_asked_for(context, source, target):
    built(source, target, "plan")
    with pytest.raises(AirflowFailException, match="TARGET_EXISTS"):
        plan(source, target, on_existing="fail").execute(context)


def test_a_restart_over_a_log_that_cannot_be_read_says_what_to_do_by_hand(context, source, target):
    """Whose table it is stands in the lost commits, so a restart may not drop it."""
    built(source, target, "plan", "snapshot")
    (target / "_delta_log" / f"{1:020}.json").unlink()
    with pytest.raises(
        AirflowFailException,
        match=f"HISTORY_LOST.*; restore it from a copy; if that is not possible, .*delete the folder {target} yourself",
    ):
        plan(source, target, on_existing="restart").execute(context)
    shutil.rmtree(target)
    with pytest.raises(AirflowException, match="Spark was started"):
        plan(source, target, on_existing="restart").execute(context)


def test_what_a_stopped_drop_has_left_is_no_build(context, source, target):
    built(source, target, "plan", "snapshot", "consume_log", "catch_up", "verify", "finish")
    ControlFolder.beside(str(target)).begin_drop()
    next((target / "_delta_log").glob("*3.json")).unlink()
    with pytest.raises(AirflowFailException, match=r"TARGET_EXISTS.*has begun and has not ended"):
        plan(source, target).execute(context)
    with pytest.raises(AirflowException, match="Spark was started"):
        plan(source, target, on_existing="restart").execute(context)


@pytest.mark.parametrize("killed", [False, True])
def test_a_retry_goes_on_with_the_build_that_it_began(context, source, target, killed):
    """The worker was killed after its plan was committed, or after all of it."""
    first = plan(source, target, submit=run_here, on_existing="fail").execute(context)
    if killed:
        (outcome,) = target.with_name("target.backfill").rglob("*outcome*")
        outcome.unlink()
    assert plan(source, target, on_existing="fail").execute(context)["build"] == first["build"]
    with pytest.raises(AirflowFailException, match="SPEC_CHANGED"):
        plan(source, target, on_existing="fail", where="id > 7").execute(context)


def test_a_build_that_was_dropped_meanwhile_is_not_planned_again(context, source, target):
    built(source, target, "plan", "snapshot")
    shutil.rmtree(target)
    with pytest.raises(NotPlanned):
        plan(source, target).proceed(context, ran=True)


def snapshot_after(operator, target):
    """The plan, whose application goes on with the snapshot."""
    operator.then = [SnapshotOperator(task_id="snapshot", target=str(target), submit=run_here)]
    return operator


def test_a_retry_of_a_restart_goes_on_with_the_build_that_it_began(context, source, target):
    """The worker was lost while the application went on, perhaps behind the hand-off. Cleared later, it restarts."""
    old = built(source, target, "plan").plan.build
    restart = snapshot_after(plan(source, target, submit=run_here, on_existing="restart"), target)
    begun = restart.execute(context)["build"]
    assert begun != old
    del context["task_state_store"]["succeeded"]
    assert plan(source, target, on_existing="restart").execute(context)["build"] == begun
    with pytest.raises(AssertionError, match="Spark was started"):
        plan(source, target, on_existing="restart").execute(context)


def test_a_retry_of_a_restart_with_another_spec_restarts(context, source, target):
    snapshot_after(plan(source, target, submit=run_here, on_existing="restart"), target).execute(context)
    del context["task_state_store"]["succeeded"]
    with pytest.raises(AssertionError, match="Spark was started"):
        plan(source, target, on_existing="restart", where="id > 7").execute(context)


def test_a_plan_is_told_of_while_its_application_goes_on(context, source, target, capsys):
    """And that of the build that a restart drops is not."""
    built(source, target, "plan")
    operator, told = plan(source, target, on_existing="restart"), []

    def launched(launch):
        for work in (lambda: None, lambda: run_here(launch).execute(context)):
            work()
            operator.meanwhile(context, operator.last(context))
            told.append("report" in context["task_state_store"])
        return EmptyOperator(task_id="launched")

    operator.submit = launched
    operator.execute(context)
    assert told == [False, True]
    assert capsys.readouterr().out.count("source at epoch") == 1


def test_a_task_whose_target_is_another_one_since_has_not_begun_the_build_there(context, source, target):
    """The target in the DAG was changed, or a mapped list is in another order."""
    other = target.with_name("other")
    built(source, other, "plan")
    plan(source, target, submit=run_here, on_existing="fail").execute(context)
    with pytest.raises(AirflowFailException, match="TARGET_EXISTS"):
        plan(source, other, on_existing="fail").execute(context)


def test_a_retry_fails_if_another_planner_was_first(context, source, target):
    def beaten(launch):
        built(source, target, "plan")
        ControlFolder.beside(str(target)).store_outcome(
            Attempt(launch.generation, launch.attempt), TargetExists("there is one").to_json()
        )
        return EmptyOperator(task_id="beaten")

    for submit in (beaten, no_spark):
        with pytest.raises(AirflowFailException, match="TARGET_EXISTS"):
            plan(source, target, submit=submit, on_existing="fail").execute(context)


def test_a_cancelled_build_starts_spark(context, source, target):
    built(source, target, "plan", "cancel")
    assert plan(source, target, submit=run_here).execute(context)["build"]
    assert built(source, target).phase.value == "snapshot"


def test_the_spec_travels_whole(context, source, target):
    where = "note <> 'it''s \"quoted\" {$1} ü'"
    plan(source, target, submit=run_here, where=where, select=["id", "id + 1 AS n"]).execute(context)
    spec = built(source, target).plan.spec
    assert (spec.where, spec.select) == (where, ("id", "id + 1 AS n"))


def test_without_an_answer_of_spark_it_is_tried_again(context, source, target):
    def silent(launch):
        return EmptyOperator(task_id="silent")

    with pytest.raises(AirflowException) as raised:
        plan(source, target, submit=silent).execute(context)
    assert not isinstance(raised.value, AirflowFailException)
    assert context["task_state_store"]["failure"]["code"] == "APPLICATION_FAILED"
