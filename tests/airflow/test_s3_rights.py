"""The least rights that the documentation names suffice on S3, and each of them is needed: each row of its tables acts
with its rights, and then without each of them. Applications run without Spark.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from threading import Event, Thread
from typing import Any, cast
from unittest.mock import Mock
from uuid import uuid4

import httpx
import pytest
from airflow.sdk import DAG, BaseOperator
from structlog.testing import capture_logs

from airflow_backfill.cli.main import main
from airflow_backfill.core.gates.max_lag import MaxLag
from airflow_backfill.ledger import control_folder
from airflow_backfill.ledger.clock import now_ms
from airflow_backfill.ledger.open_store import open_store
from airflow_backfill.ledger.reader import BuildReader
from airflow_backfill.ledger.service_folder import ServiceFolder
from airflow_backfill.operators import throttle, watch
from airflow_backfill.operators.answer import AnswerOperator
from airflow_backfill.operators.cancel import CancelOperator
from airflow_backfill.operators.catch_up import CatchUpOperator
from airflow_backfill.operators.command import CommandOperator
from airflow_backfill.operators.consume_log import ConsumeLogOperator
from airflow_backfill.operators.finish import FinishOperator
from airflow_backfill.operators.launch import Launch
from airflow_backfill.operators.plan import PlanOperator
from airflow_backfill.operators.served import Served
from airflow_backfill.operators.snapshot import SnapshotOperator
from airflow_backfill.operators.throttle import ThrottleOperator
from airflow_backfill.operators.upstream import UpstreamOperator
from airflow_backfill.operators.verify import VerifyOperator
from airflow_backfill.operators.watch import WatchOperator
from airflow_backfill.sensors.await_finish import AwaitFinishSensor
from airflow_backfill.sensors.gate import GateSensor
from airflow_backfill.spark.run.phases import REPORT
from airflow_backfill.spark.service import service
from airflow_backfill.testing.launcher import run_here
from airflow_backfill.triggers.gate import GateTrigger
from airflow_backfill.triggers.request import RequestTrigger
from airflow_backfill.watching.gate_watch import GateWatch
from airflow_backfill.watching.request_watch import RequestWatch
from tests.airflow.s3_lake import (
    LAKE,
    REFUSED,
    REQUEST,
    SERVICE,
    check,
    new_epoch,
    new_lake,
    new_litter,
    new_request,
    said,
    target_of,
)
from tests.airflow.task import new_context
from tests.airflow.without_spark import built, commit_to
from tests.cli.test_report import EXPLAINED, PLANNED
from tests.ledger.json_topic import JsonTopic
from tests.ledger.s3_users import (
    ASKS,
    CLEANS,
    COMMANDER,
    DONE,
    LATE,
    OF_TABLES,
    OPEN,
    ORDERS,
    SERVES,
    SPARE,
    SPARK,
    SUBMITS,
    TABLES,
    TOPIC,
    TRIGGERER,
    WAITS,
    WHOLE,
    WORKER,
    Users,
    documented,
)


class _Location(str):
    """A folder of the bucket, where a path is asked for."""

    def __truediv__(self, name: str) -> _Location:
        return _Location(f"{self}/{name}")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Users]:
    with new_lake(tmp_path_factory.mktemp("source"), OPEN, LATE, DONE, SPARE, WHOLE) as users:
        JsonTopic(cast(Path, _Location(f"{LAKE}/{TOPIC}")), 100).plan()
        yield users


def task(kind: type[BaseOperator], shop: str | None = OPEN, **options: Any) -> Any:
    """What a task of its own returns; without a shop it has no target."""
    named = {} if shop is None else {"target": target_of(shop)}
    context = new_context()
    context["ti"].run_id = uuid4().hex
    with DAG("d", schedule=None):
        made: Any = kind(task_id="t", ledger_conn_id="row", **named, **options)
    return made.execute(context)


def command(name: str, *options: str, shop: str = OPEN, place: str | None = None) -> str:
    """What a command line prints."""
    printed = StringIO()
    with redirect_stdout(printed), redirect_stderr(printed):
        status = main([name, place or target_of(shop), *options, "--conn-id", "row"])
    return printed.getvalue() if status == 0 else f"RAISED: {printed.getvalue()}"


def gate_of_a_trigger() -> Any:
    """What the task hears when the gate's trigger fires."""
    watched = GateWatch(target_of(OPEN), MaxLag(epochs=0), ledger_conn_id="row").to_json()

    async def fired() -> Any:
        return await anext(GateTrigger(watch=watched, poke_interval=0, deadline=0.0).run())

    return asyncio.run(fired())


class _AtOnce(Thread):
    """Does its work before ``start`` returns."""

    start = Thread.run

    def is_alive(self) -> bool:
        return False


def serve(over: Callable[[], bool]) -> str:
    """Serve requests until it is over; says so if one is left."""

    class Over(Exception):
        pass

    def check() -> None:
        if over():
            raise Over

    folder = ServiceFolder.at(SERVICE)
    one = service.Service(folder, lambda request, stopped: None, lambda request: None, check, make_thread=_AtOnce)
    with suppress(Over):
        one.serve(3600, 0)
    folder.leave(one.name)
    return "RAISED" if folder.names() else "served"


def serve_three_turns() -> str:
    """Take a request, remove it, and see that it is gone."""
    left = iter([False] * 3)
    return serve(lambda: next(left, True))


def ask() -> Any:
    """Ask a service, which works meanwhile in a thread, and withdraw the request."""
    named = {"name": "n", "task_id": "t", "attempt": uuid4().hex, "generation": 7, "target": "/t"}
    operator = Served(SERVICE, "row", poke_interval=0.01, deferrable=False)(Launch("/a.py", (), "", {}, {}, **named))
    over = Event()
    server = Thread(target=serve, args=(over.is_set,))
    server.start()
    try:
        operator.execute(new_context())
    finally:
        over.set()
        server.join()
    return operator.on_kill()


def follow() -> Any:
    """Follow a request in the triggerer, and withdraw it."""
    watched = RequestWatch(SERVICE, REQUEST.name, 60.0, "row").to_json()
    trigger = RequestTrigger(watch=watched, poke_interval=0, deadline=0.0)

    async def fired() -> Any:
        event = await anext(trigger.run())
        await trigger.on_kill()
        return event

    return asyncio.run(fired())


RUNS = {"submit": run_here}
NO_DRIVER = "--spark-submit", "/bin/true"
POLLS = {"poke_interval": 0, "timeout": 60}
ACTS: Mapping[str, tuple[Callable[[], Any], ...]] = {
    SPARK: (lambda: built(f"{LAKE}/{DONE}/source", target_of(DONE), "upstream"),),
    WORKER: (lambda: task(UpstreamOperator, DONE, **RUNS),),
    COMMANDER: (
        lambda: task(CommandOperator, verb="hold"),
        lambda: task(CommandOperator, verb="release"),
        lambda: task(ThrottleOperator, rate=now_ms()),
    ),
    ORDERS: (
        *(lambda verb=verb: command(verb) for verb in ("pause", "resume", "hold", "release")),
        lambda: command("throttle", "none"),
        lambda: command("skip", shop=TOPIC),
        lambda: command("dead-letter", shop=TOPIC),
    ),
    SUBMITS: (lambda: command("cancel", *NO_DRIVER, shop=SPARE).replace("RAISED: [APPLICATION_FAILED]", ""),),
    CLEANS: (lambda: command("clean", "--days", "1"),),
    TRIGGERER: (
        gate_of_a_trigger,
        lambda: task(GateSensor, max_lag=0, **POLLS),
        lambda: task(AwaitFinishSensor, DONE, **POLLS),
        lambda: command("status"),
    ),
    ASKS: (ask,),
    SERVES: (serve_three_turns,),
    WAITS: (follow,),
}
"""What each row does, as a user would."""
CLI = Path(__file__).parents[1] / "cli"
ENVIRONMENT = {SPARK: SPARK, WORKER: SPARK, SUBMITS: SPARK, ASKS: SERVES, SERVES: SERVES}
"""By row: who it is that has no connection, but the environment."""
BEFORE = {SPARK: new_epoch, WORKER: new_epoch, CLEANS: new_litter, SERVES: new_request, WAITS: new_request}
"""By row: what has to be there."""
OF_A_DROP = ("delete", "target")
"""The right that an application without Spark never needs."""


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Old attempts are forgotten, and a service looks often."""
    monkeypatch.setattr(control_folder, "KEPT_ATTEMPTS", 1)
    monkeypatch.setattr(service, "LOOK_SECONDS", 0.01)


@pytest.mark.parametrize(
    ("row", "missing"),
    [(row, missing) for row in ACTS for missing in (None, *documented(row)) if missing != OF_A_DROP],
    ids=str,
)
def test_a_row_needs_its_rights_and_no_more(lake, row, missing, caplog):
    if row in BEFORE:
        BEFORE[row]()
    rights = [right for right in documented(row) if right != missing]
    with lake.changed(row, rights), lake.acting(ENVIRONMENT.get(row), row):
        check(said(ACTS[row]) + caplog.text, missing)


@pytest.mark.slow
def test_a_whole_build_of_tasks_and_their_applications(lake):
    """As a DAG runs them; nor is anything refused that a task only warns of, such as a look at the progress."""
    named = {"build_name": "orders", "source": f"{LAKE}/{WHOLE}/source", "key": ["id"]}
    with capture_logs() as logs:
        with lake.acting(SPARK, WORKER):
            task(PlanOperator, WHOLE, **named, **RUNS)
            task(SnapshotOperator, WHOLE, **RUNS)
            task(ConsumeLogOperator, WHOLE, max_lag=0, **RUNS)
            for kind in (CatchUpOperator, VerifyOperator, FinishOperator):
                task(kind, WHOLE, **RUNS)
        commit_to(f"{LAKE}/{WHOLE}/source", 2)
        with lake.acting(SPARK, WORKER):
            assert task(UpstreamOperator, WHOLE, **RUNS)["epoch"] == 5
    warned = [one["event"] for one in logs if one["log_level"] != "info"]
    assert [text for text in warned if "outside of the Task Runner" not in text] == []


@pytest.mark.parametrize("missing", [None, ("list", "")], ids=str)
def test_whoever_looks_at_a_folder_lists_all_of_it(lake, missing, monkeypatch):
    monkeypatch.setattr(watch, "Variable", Mock(get=Mock(return_value=None)))
    looks = (
        lambda: task(WatchOperator, None, folder=f"{LAKE}/{OPEN}"),
        lambda: command("list", place=f"{LAKE}/{OPEN}"),
    )
    for look in looks:
        rights = [*documented(TRIGGERER), *(() if missing else [("list", "")])]
        with lake.changed(TRIGGERER, rights), lake.acting(None, TRIGGERER):
            check(said([look]), missing)


@pytest.mark.parametrize("missing", [("write", "target.backfill/commands"), None], ids=str)
def test_a_task_that_cancels_has_the_rights_of_two_rows(lake, missing):
    rights = [right for right in documented(WORKER) + documented(COMMANDER) if right != missing]
    with lake.changed(WORKER, rights), lake.acting(SPARK, WORKER):
        check(said([lambda: task(CancelOperator, SPARE, **RUNS)]), missing)


@pytest.mark.parametrize("may_delete", [False, True])
def test_old_throttles_stay_unless_they_may_be_deleted(lake, may_delete, monkeypatch):
    monkeypatch.setattr(throttle, "KEPT_COMMANDS", 1)
    more = [("delete", "target.backfill/commands")] if may_delete else []
    with lake.changed(COMMANDER, [*documented(COMMANDER), *more]), lake.acting(None, COMMANDER), capture_logs() as logs:
        assert [task(ThrottleOperator, rate=rate)["did"] for rate in (now_ms(), 5, 6)] == ["throttled"] * 3
    reader = BuildReader(target_of(OPEN))
    left = [one for _, one in reader.commands(reader.state().plan.build) if one.signed.by == throttle.BUDGET]
    assert (len(left) == 2) == may_delete
    assert ("old throttles stay" in str(logs)) != may_delete


def test_an_answer_needs_no_store(lake, monkeypatch):
    """Only Airflow is asked."""
    asks = {"dag_id": "d", "run_id": "r", "task_id": "approve", "map_index": -1}
    builds = [{"target": target_of(OPEN), "dag_id": "d", "key": "k"}]
    answer = httpx.Response(200, json={"builds": builds, "run": {"asked": [asks], "answered": []}})
    client = httpx.Client
    monkeypatch.setattr(httpx, "Client", lambda **how: client(**how, transport=httpx.MockTransport(lambda _: answer)))
    monkeypatch.setenv("AIRFLOW_CONN_AIRFLOW_API", '{"conn_type": "http", "host": "http://air.test", "password": "p"}')
    with lake.acting(None):
        assert main(["approve", target_of(OPEN)]) == main(["reject", target_of(OPEN)]) == 0
        AnswerOperator(task_id="t", target=target_of(OPEN), answer="approve").execute(new_context())


@pytest.mark.slow
def test_the_command_line_has_its_rights_and_its_driver_those_of_spark(lake, tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("RECEIVED", os.devnull)
    for name in ("cancel", "report"):
        script = tmp_path / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{CLI}/{name}_application.py" "$@"\n')
        script.chmod(0o755)
    driver, reports = ("--spark-submit", str(tmp_path / "cancel")), ("--spark-submit", str(tmp_path / "report"))
    spec = json.dumps({"name": "orders", "source": f"{LAKE}/{SPARE}/source", "target": target_of(SPARE), "key": ["id"]})
    with lake.acting(SPARK, SUBMITS):
        assert "the build is cancelled" in command("cancel", *driver, shop=SPARE)
        assert "is planned" in command("plan", *driver, place=spec)
        assert "goes on" in command("recover", "--why", "a test", *driver, shop=SPARE)
        assert "was repaired" in command("repair", "--why", "a test", *driver, shop=LATE)
        assert "equal at epoch" in command("prove", *driver)
    only_looks = [right for right in documented(SUBMITS) if right[0] in ("read", "list")]
    with lake.changed(SUBMITS, only_looks), lake.acting(None, SUBMITS):
        monkeypatch.setenv("REPORT", json.dumps({REPORT: 1, "code": "OK", "result": EXPLAINED}))
        assert "id=42" in command("explain", "--key", "id=42", *reports)
        monkeypatch.setenv("REPORT", json.dumps({REPORT: 1, "code": "OK", "result": PLANNED}))
        assert "nothing was created" in command("plan", "--explain", *reports, place=spec)


def test_what_is_not_documented_is_refused(lake):
    """Else the tests above would show nothing."""
    for who in OF_TABLES:
        for folder in (*TABLES, "target/_delta_log", "target.backfill/attempts", "target.backfill/commands"):
            allowed = any(right == "write" and f"{folder}/".startswith(f"{f}/") for right, f in documented(who))
            with lake.acting(who):
                put = said([lambda folder=folder: open_store(f"{LAKE}/{OPEN}/{folder}/x").put("x", b"")])
            assert bool(REFUSED.search(put)) != allowed, (who, folder)
