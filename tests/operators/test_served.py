"""A task that asks a service: what it asks, when it gives up, and that nothing is left of it."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import TaskDeferred

from airflow_backfill.core.errors import ApplicationFailed, InvalidSpec, RecordInvalid, SourceUnavailable
from airflow_backfill.core.service.heartbeat import Heartbeat
from airflow_backfill.core.service.request import Request
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.ledger.service_folder import ServiceFolder
from airflow_backfill.operators.launch import Launch
from airflow_backfill.operators.served import LOOK_SECONDS, Served, ServedOperator, requested
from airflow_backfill.operators.snapshot import SnapshotOperator
from airflow_backfill.watching.instance import Instance
from airflow_backfill.watching.patience import PATIENCE_POLLS
from airflow_backfill.watching.request_watch import RequestWatch
from tests.airflow.without_spark import built, commit_to
from tests.failing import Away

LAUNCH = Launch(
    "/apps/snapshot.py", ("--target", "/t", "--full"), "p.zip", {}, {}, name="n", task_id="g.snapshot", attempt="me",
    generation=7, target="/t",
)  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> ServiceFolder:
    return ServiceFolder.at(str(tmp_path))


def deferred(context, tmp_path: Path) -> tuple[ServedOperator, TaskDeferred]:
    operator = Served(str(tmp_path), poke_interval=0.05)(LAUNCH)
    with pytest.raises(TaskDeferred) as caught:
        operator.execute(context)
    return operator, caught.value


def test_a_launcher_is_its_arguments():
    assert Served("/s") == Served("/s") != Served("/s", poke_interval=1.0)


def test_it_asks_for_its_attempt(context, folder, tmp_path):
    deferred(context, tmp_path)
    (name,) = folder.names()
    request = folder.take(name, "s")
    assert (request.application, request.target, request.attempt) == ("snapshot", "/t", Attempt(7, "me"))
    assert request.arguments == LAUNCH.arguments


def test_it_ends_well_when_the_request_is_gone(context, folder, tmp_path):
    operator, waits = deferred(context, tmp_path)
    folder.remove(folder.names()[0])
    operator.resume_execution(waits.method_name, {"event": {}}, context)


@pytest.mark.parametrize("deferrable", [True, False])
def test_a_service_of_another_version_says_so(context, folder, tmp_path, monkeypatch, deferrable):
    def refused(_folder: ServiceFolder, request: Request) -> None:
        folder._store.create(f"requests/{request.name}", b'{"format": 9}')
        with pytest.raises(RecordInvalid) as error:
            folder.take(request.name, "s")
        folder.refuse(request.name, error.value)

    monkeypatch.setattr(ServiceFolder, "ask", refused)
    operator = Served(str(tmp_path), poke_interval=0.05, deferrable=deferrable)(LAUNCH)
    with pytest.raises(RecordInvalid, match="run service and tasks with one version"):
        try:
            operator.execute(context)
        except TaskDeferred as waits:
            operator.resume_execution(waits.method_name, {"event": {}}, context)
    assert not folder.names()


@pytest.mark.parametrize("silent", [PATIENCE_POLLS - 1, PATIENCE_POLLS])
def test_a_store_that_does_not_answer_for_a_while_costs_no_retry(context, folder, tmp_path, monkeypatch, silent):
    monkeypatch.setattr(ServiceFolder, "wanted", Away(silent).wrapped(lambda folder, name: False))
    operator = Served(str(tmp_path), deferrable=False, poke_interval=0.001)(LAUNCH)
    with pytest.raises(SourceUnavailable, match="away") if silent == PATIENCE_POLLS else nullcontext():
        operator.execute(context)


@pytest.mark.parametrize("taken", [True, False])
def test_a_dead_service_and_a_missing_one_are_errors_that_are_retried(context, folder, tmp_path, taken):
    operator, waits = deferred(context, tmp_path)
    if taken:
        folder.beat("s", Heartbeat(1, "app", "", 0, 1, False))
        folder.take(folder.names()[0], "s")
    event = {"last": ["s", 1] if taken else None}
    with pytest.raises(ApplicationFailed, match="service s .* has died" if taken else "no service took") as caught:
        operator.resume_execution(waits.method_name, {"event": event}, context)
    assert caught.value.retry and not folder.names()


BEAT = Heartbeat(1, "app", "", 0, 1, False)


@pytest.mark.parametrize("later", ["taken", "alive", "looked at", "dead"])
def test_a_service_that_works_by_the_time_the_task_resumes_is_waited_for(context, folder, tmp_path, monkeypatch, later):
    """The trigger gave up; then the task waited for a worker, as hundreds do after an outage of their service."""
    look = RequestWatch._lost

    def lost(watch: RequestWatch) -> bool:
        look(watch)
        return True

    operator, waits = deferred(context, tmp_path)
    (name,) = folder.names()
    folder.beat("s", BEAT)
    if later != "taken":
        folder.take(name, "s")
    if later != "looked at":
        monkeypatch.setattr(RequestWatch, "_lost", lost)
    assert waits.trigger.due() is (later != "looked at")
    event = waits.trigger.event()
    if later == "taken":
        folder.take(name, "s")
    if later == "alive":
        folder.beat("s", replace(BEAT, number=2))
    with pytest.raises(ApplicationFailed if later == "dead" else TaskDeferred):
        operator.resume_execution(waits.method_name, {"event": json.loads(json.dumps(event))}, context)
    assert folder.names() == ([] if later == "dead" else [name])


def test_a_task_that_waits_for_long_tells_warnings_of_its_build(context, source, target, tmp_path):
    built(source, target, "plan")
    told = []
    operator = SnapshotOperator(
        task_id="snapshot",
        target=str(target),
        submit=Served(str(tmp_path / "service")),
        warn_lag=timedelta(seconds=40),
        on_warning_callback=told.append,
    )
    with pytest.raises(TaskDeferred) as waits:
        operator.execute(context)
    commit_to(source, at=time.time() - 50)
    assert not told and LOOK_SECONDS - 60 < waits.value.trigger.deadline - time.time() <= LOOK_SECONDS
    with pytest.raises(TaskDeferred):
        operator.launcher_resumed(context, event=waits.value.trigger.event())
    assert [one["warning"]["kind"] for one in told] == ["lag"]


def test_whoever_ends_the_task_withdraws_its_request(context, folder, tmp_path):
    _, waits = deferred(context, tmp_path)
    path, arguments = waits.trigger.serialize()
    module, _, kind = path.rpartition(".")
    trigger = getattr(import_module(module), kind)(**json.loads(json.dumps(arguments)))
    assert trigger.serialize() == waits.trigger.serialize()
    asyncio.run(trigger.on_kill())
    assert not folder.names()
    operator = Served(str(tmp_path), deferrable=False, poke_interval=0.05, patience_seconds=0.0)(LAUNCH)
    with pytest.raises(ApplicationFailed, match="no service took the request"):
        operator.execute(context)
    assert not folder.names()
    operator._watch.folder.ask(requested(LAUNCH, int(operator._watch.name.partition("-")[0])))
    operator.on_kill()
    assert not folder.names()


@pytest.mark.parametrize(("state", "kept"), [("deferred", True), ("failed", False), (None, False)])
def test_a_triggerer_that_stood_still_withdraws_no_request_that_another_one_watches(
    context, folder, tmp_path, monkeypatch, state, kept
):
    """Airflow ends its copy of the trigger as if a user had ended the task."""
    _, waits = deferred(context, tmp_path)
    monkeypatch.setattr(Instance, "state", lambda self: state)
    waits.trigger.task_instance = SimpleNamespace(dag_id="d", run_id="r", task_id="t", map_index=-1)
    asyncio.run(waits.trigger.on_kill())
    assert bool(folder.names()) is kept


@pytest.mark.parametrize("more", [{"conf": {"spark.a": "b"}}, {"environment": {"AIRFLOW_BACKFILL_KAFKA": "secret"}}])
def test_settings_and_secrets_belong_to_the_service(more):
    with pytest.raises(InvalidSpec, match="of the ServiceOperator") as caught:
        requested(replace(LAUNCH, **more), 1)
    assert "secret" not in caught.value.message.replace("no secret", "")
