"""A look at many builds tells of those that need a person, whether they have a task or not."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_backfill.core.errors import SourceUnavailable, VerificationFailed
from airflow_backfill.ledger.clock import now_ms
from airflow_backfill.operators import watch
from airflow_backfill.operators.watch import WatchOperator
from tests.airflow.task import new_context
from tests.core.tasks import CATCH_UP, CONSUME, READ
from tests.ledger.json_target import JsonBuild

HOUR_MS = 3_600_000


class Runs:
    """The runs of a DAG that looks at a folder: each is a new one, which knows what the run before has pushed."""

    def __init__(self, folder, monkeypatch):
        self.folder, self.pushed, self.told, self.hours = folder, {}, [], 0
        monkeypatch.setattr("airflow_backfill.builds.glance.now_ms", lambda: now_ms() + self.hours * HOUR_MS)
        monkeypatch.setattr("airflow_backfill.operators.watch.now_ms", lambda: now_ms() + self.hours * HOUR_MS)

    def look(self, hours=0, context=None, **options):
        """What the callback is told by a run ``hours`` after the one before, and what the task returns."""
        self.hours += hours
        context = new_context() if context is None else context
        context["ti"].xcom_pull = lambda task, key, include_prior_dates: self.pushed.get(key)
        self.told = []
        say = lambda told: self.told.append(told["warning"])  # noqa: E731
        wanted = {"folder": str(self.folder), "on_warning_callback": say, **options}
        try:
            return WatchOperator(task_id="watch", **wanted).execute(context)
        finally:
            self.pushed |= context["ti"].pushed

    @property
    def kinds(self):
        return [(warning["name"], warning["kind"]) for warning in self.told]


@pytest.fixture
def runs(tmp_path, monkeypatch):
    return Runs(tmp_path, monkeypatch)


@pytest.fixture
def build(tmp_path):
    return JsonBuild(tmp_path / "orders")


def fails(build, task="verify", error=None, **document):
    """An attempt of the task fails for good."""
    where = {"dag_id": "d", "task_id": f"orders.{task}", "run_id": "r", "map_index": -1, "last_try": True}
    me = build.reader.draw_attempt({"task": task, **where, **document})
    build.reader.control.store_outcome(me, (error or VerificationFailed("it differs")).to_json())
    return me


def test_a_build_whose_task_has_failed_for_good_is_told(runs, build, tmp_path):
    other = JsonBuild(tmp_path / "clicks", name="clicks")
    for one in (build, other):
        one.plan()
        one.run(READ)
        one.run(CONSUME)
        one.run(CATCH_UP)
    assert runs.look() == [] and runs.told == []
    fails(build)
    [found] = runs.look()
    assert (found["target"], found["name"], list(found["warnings"])) == (build.location, "orders", ["attention"])
    assert runs.kinds == [("orders", "attention")]
    assert "VERIFICATION_FAILED" in runs.told[0]["message"] and "repair" in runs.told[0]["message"]


def test_it_is_told_once_a_day_while_it_lasts_and_again_when_it_comes_again(runs, build):
    build.plan()
    fails(build, "snapshot")
    told = []
    for hours in (0, 1, 22, 2):
        assert len(runs.look(hours, warn_idle=None)) == 1
        told.append(len(runs.told))
    assert told == [1, 0, 0, 1]
    build.run(READ)  # a person has mended it
    assert runs.look(warn_idle=None) == []
    fails(build, "consume_log")
    runs.look(warn_idle=None)
    assert len(runs.told) == 1


def test_a_retry_of_the_same_run_tells_nothing_again(runs, build):
    build.plan()
    fails(build, "snapshot")
    context = new_context()
    runs.look(context=context)
    runs.pushed.clear()  # Airflow forgets what a try has pushed before the next one
    runs.look(context=context)
    assert runs.told == []


@pytest.mark.parametrize("kept", [None, "x", [1], {"/t": "x"}, {"/t": {"attention": "soon"}}])
def test_what_was_told_may_be_damaged(runs, build, kept):
    build.plan()
    fails(build, "snapshot")
    runs.pushed["warned"] = kept if not isinstance(kept, dict) else {build.location: kept["/t"]}
    runs.look()
    assert runs.kinds == [("orders", "attention")]


def test_a_build_that_nobody_works_on_is_told_after_an_hour(runs, build):
    """Its DAG is paused, or a person has marked its task."""
    build.plan()
    build.reader.control.store_outcome(build.reader.draw_attempt({"task": "plan"}), {"code": "OK", "result": {}})
    runs.look()
    assert runs.told == []
    runs.look(hours=2)
    assert runs.kinds == [("orders", "idle")] and "2.0 hours" in runs.told[0]["message"]
    assert "the snapshot task" in runs.told[0]["message"]
    runs.pushed.clear()
    runs.look(warn_idle=None)
    assert runs.told == []


def test_pending_epochs_are_told_by_age(runs, build):
    build.plan()
    build.run(READ)
    build.run(CONSUME)
    build.run(CATCH_UP)
    build.write()
    runs.look(hours=3, warn_idle=None)
    assert runs.told == []
    runs.look(warn_lag=timedelta(hours=2), warn_idle=None)
    assert runs.kinds == [("orders", "lag")]


def test_builds_that_cannot_be_read_fail_the_task_after_the_others_were_told(runs, build, monkeypatch):
    build.plan()
    fails(build, "snapshot")
    read = watch.glance

    def some(target, options):
        if "clicks" in target:
            raise SourceUnavailable("the store is down")
        return read(target, options)

    monkeypatch.setattr(watch, "glance", some)
    with pytest.raises(AirflowException, match=r"1 of 2 builds cannot be read; /lake/clicks: .* the store is down"):
        runs.look(folder=None, targets=[build.location, "/lake/clicks"])
    assert runs.kinds == [("orders", "attention")]
    runs.look()
    assert runs.told == [], "it is remembered although the task failed"


def test_a_target_without_a_build_is_left_out(runs, build, tmp_path):
    build.plan()
    assert runs.look(folder=None, targets=[build.location, str(tmp_path / "nothing")]) == []


def test_the_metrics_of_all_builds_are_sent(runs, build, monkeypatch):
    sent = []
    monkeypatch.setattr(watch, "tell_progress", sent.append)
    build.plan()
    runs.look()
    assert [one["name"] for one in sent] == ["orders"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"folder": None},
        {"targets": ["/t"]},
        {"folder": None, "targets": []},
        {"folder": None, "targets": "/t"},
        {"folder": "{{ params.folder }}"},
    ],
)
def test_bad_arguments_are_refused(runs, wrong):
    with pytest.raises(AirflowFailException, match="SPEC_INVALID"):
        runs.look(**wrong)


def test_a_callback_that_cannot_be_called_is_refused_when_the_dag_is_read():
    with pytest.raises(Exception, match="on_warning_callback"):
        WatchOperator(task_id="watch", folder="/lake", on_warning_callback=SimpleNamespace())
