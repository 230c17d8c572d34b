"""A look at many builds tells of those that need a person, whether they have a task or not."""

from __future__ import annotations

import json
from datetime import timedelta
from types import SimpleNamespace

import pytest
from airflow.sdk import DAG
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
    """The runs of a DAG that looks at a folder; ``kept`` is the variable that outlives them."""

    def __init__(self, folder, monkeypatch):
        self.folder, self.kept, self.told, self.hours = folder, {}, [], 0
        monkeypatch.setattr(watch, "Variable", self)
        monkeypatch.setattr("airflow_backfill.builds.glance.now_ms", lambda: now_ms() + self.hours * HOUR_MS)
        monkeypatch.setattr("airflow_backfill.operators.watch.now_ms", lambda: now_ms() + self.hours * HOUR_MS)

    def get(self, name, *, default, deserialize_json):
        assert deserialize_json
        return json.loads(self.kept[name]) if name in self.kept else default

    def set(self, name, value, *, serialize_json):
        assert serialize_json
        self.kept[name] = json.dumps(value)

    def look(self, hours=0, **options):
        """What a run returns that begins ``hours`` after the one before; ``told`` is what it tells."""
        self.hours += hours
        self.told = []
        say = lambda told: self.told.append(told["warning"])  # noqa: E731
        wanted = {"folder": str(self.folder), "on_warning_callback": say, **options}
        with DAG("watches", schedule=None):
            return WatchOperator(task_id="watch", **wanted).execute(new_context())

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
    said = (
        "waiting for an operator: attempt 5 (verify) ended with VERIFICATION_FAILED: it differs. If the message says so"
    )
    assert runs.told[0]["message"].startswith(said)


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


@pytest.mark.parametrize("kept", ["", "x", "[1]", "null", '{"T": "x"}', '{"T": {"attention": "soon"}}'])
def test_what_was_told_may_be_damaged(runs, build, kept):
    build.plan()
    fails(build, "snapshot")
    runs.kept["table_backfill_watch/watches/watch"] = kept.replace("T", build.location)
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
    runs.kept.clear()
    runs.look(warn_idle=None)
    assert runs.told == []


def test_an_application_that_has_died_is_told_once(runs, build):
    """Not as two kinds: the machine is gone, and Airflow may not know."""
    build.plan()
    where = {"dag_id": "d", "task_id": "orders.snapshot", "run_id": "r", "map_index": -1}
    build.reader.control.announce(build.reader.draw_attempt({"task": "snapshot", **where}), {})
    runs.look(hours=1)
    assert runs.kinds == [("orders", "stuck")] and "clear its task" in runs.told[0]["message"]


def test_a_source_that_does_not_answer_now_is_no_alarm_but_a_retry(runs, build, monkeypatch):
    build.plan()
    trouble = {"code": "SOURCE_UNAVAILABLE", "message": "the store is slow", "retry": True}
    read = watch.glance
    monkeypatch.setattr(watch, "glance", lambda *given: {**read(*given), "trouble": trouble})
    with pytest.raises(AirflowException, match=r"1 of 1 builds cannot be read; .* the store is slow"):
        runs.look()
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
