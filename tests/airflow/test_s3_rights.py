"""The least rights that the documentation names suffice on S3. Applications run without Spark."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from unittest.mock import Mock
from uuid import uuid4

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowException

from airflow_backfill.builds.ordering import ordered
from airflow_backfill.builds.status import status
from airflow_backfill.cli.main import main
from airflow_backfill.core.errors import SourceUnavailable
from airflow_backfill.core.gates.gate import Ready
from airflow_backfill.core.gates.max_lag import MaxLag
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.hooks.airflow_api import AirflowApiHook
from airflow_backfill.ledger.control_folder import ControlFolder
from airflow_backfill.ledger.open_store import open_store
from airflow_backfill.ledger.reader import BuildReader
from airflow_backfill.operators import watch
from airflow_backfill.operators.command import CommandOperator
from airflow_backfill.operators.throttle import ThrottleOperator
from airflow_backfill.operators.watch import WatchOperator
from airflow_backfill.watching.gate_watch import GateWatch
from tests.airflow.runs import ROOT
from tests.airflow.task import new_context
from tests.airflow.without_spark import built, commit_to, make_source
from tests.ledger.moto_s3 import moto_s3
from tests.ledger.s3_users import (
    ALL,
    ANSWERING,
    CLEANING,
    LAKE,
    OF_BUCKET,
    ORDERING,
    PAGE,
    PAUSING,
    PLACES,
    SPARK,
    SUBMITTING,
    TRIGGERER,
    WORKER,
    Right,
    Users,
    documented,
)

TARGET = f"{LAKE}/target"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Users]:
    with moto_s3("lake") as options, pytest.MonkeyPatch.context() as patch:
        one = Users(options, patch)
        source, store = make_source(tmp_path_factory.mktemp("source")), open_store(f"{LAKE}/source")
        for file in source.rglob("*"):
            if file.is_file():
                store.put(str(file.relative_to(source)), file.read_bytes())
        yield one


def test_a_build_needs_no_more_rights_than_documented(lake: Users) -> None:
    source, target = f"{LAKE}/source", TARGET
    with lake.acting(SPARK):
        built(source, target, "plan", "snapshot")
    commit_to(source, 2)
    with lake.acting(SPARK):
        built(source, target, "consume_log")
    with lake.acting(TRIGGERER):
        watch = GateWatch(target, MaxLag(epochs=0))
        assert isinstance(watch.gate().verdict, Ready) and isinstance(watch.live().verdict, Ready)
        assert status(target)["phase"] == "consume_log"
    with lake.acting(PAGE):
        assert status(target)["phase"] == "consume_log"
        assert ordered(target, Command(Verb.HOLD)) == 1
    with lake.acting(WORKER):
        BuildReader(target).draw_attempt({"task": "catch_up"})
    with lake.acting(PAGE):
        ordered(target, Command(Verb.RELEASE))
    with lake.acting(SPARK):
        built(source, target, "catch_up", "verify", "finish")
    commit_to(source)
    with lake.acting(SPARK):
        assert built(source, target, "upstream").applied == 6


def runs(*argv: str) -> None:
    """A command of the command line, which succeeds."""
    with redirect_stderr(StringIO()) as said:
        status = main([*argv, "--json"])
    assert status == 0, said.getvalue()


def orders() -> None:
    """As another run: a task that is repeated orders nothing."""
    context = new_context()
    context["ti"].run_id = uuid4().hex
    CommandOperator(task_id="t", target=TARGET, verb="throttle", rate=900).execute(context)
    ThrottleOperator(task_id="t", target=TARGET, rate=800).execute(context)


def pauses() -> None:
    for verb in (["pause"], ["resume"], ["throttle"]):
        runs(*verb, TARGET, *(["none"] if verb == ["throttle"] else []))


def looks() -> None:
    runs("status", TARGET)
    runs("list", LAKE)
    with DAG("watches", schedule=None):
        WatchOperator(task_id="watch", folder=LAKE).execute(new_context())


def submits() -> None:
    submit = str(Path(os.environ["RECEIVED"]).with_name("spark-submit"))
    runs("prove", TARGET, "--spark-submit", submit)
    epoch = str(BuildReader(TARGET).state().applied)
    runs("recover", TARGET, "--epoch", epoch, "--why", "a test", "--spark-submit", submit)
    runs("repair", TARGET, "--why", "a test", "--spark-submit", submit)
    built(f"{LAKE}/source", TARGET, "verify", "finish", "upstream")


def answers() -> None:
    """Airflow is asked, and no store."""
    with pytest.raises(SourceUnavailable, match="API server does not answer"):
        AirflowApiHook().answer(TARGET, "approve")


WORKS: dict[str, Callable[[], None]] = {
    ORDERING: orders,
    PAUSING: pauses,
    TRIGGERER: looks,
    CLEANING: lambda: runs("clean", TARGET),
    SUBMITTING: submits,
    ANSWERING: answers,
}


@pytest.fixture
def prepared(tmp_path: Path, lake: Users, monkeypatch: pytest.MonkeyPatch) -> Users:
    """A ``spark-submit`` that needs no Spark, an API server that does not answer, and something to clean."""
    monkeypatch.setenv("RECEIVED", str(tmp_path / "received.json"))
    monkeypatch.setenv("AIRFLOW_CONN_AIRFLOW_API", "http://127.0.0.1:9")
    monkeypatch.setattr(watch, "Variable", Mock(get=Mock(return_value={})))
    script = tmp_path / "spark-submit"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{ROOT}/tests/cli/cancel_application.py" "$@"\n')
    script.chmod(0o755)
    with monkeypatch.context() as patch:
        for name, value in lake.root.items():
            patch.setenv(name, value)
        commit_to(f"{LAKE}/source")
        control = ControlFolder.beside(TARGET)
        me = control.draw_attempt({"task": "verify"}, floor=0)
        control.store_outcome(me, {"code": "KEY_NULL", "message": "m", "retry": False, "data": {}, "at": 0})
        control.store_explanation(me, {"key": {"id": "1"}, "verdict": "equal", "at": 0})
        control.store_part("part", {"1": [2]})
    return lake


@pytest.mark.parametrize("who", WORKS)
def test_a_row_has_all_the_rights_that_its_work_needs(prepared: Users, who: str) -> None:
    with prepared.acting(who):
        WORKS[who]()


NEEDED = [
    (who, right)
    for who in (ORDERING, PAUSING, TRIGGERER, CLEANING)
    for right in documented(who)
    if right[0] not in OF_BUCKET
]


@pytest.mark.parametrize(("who", "right"), NEEDED)
def test_each_right_of_a_row_is_needed(prepared: Users, who: str, right: Right) -> None:
    with prepared.acting(who, without=right), pytest.raises((AirflowException, AssertionError)) as failed:
        WORKS[who]()
    assert "SOURCE_UNAVAILABLE" in str(failed.value) and right[1] in str(failed.value)


def test_what_is_not_documented_is_refused(lake: Users) -> None:
    """Else the test above would show nothing."""
    for who in ALL:
        for folder in (*PLACES, "target/_delta_log", "target.backfill/attempts", "target.backfill/commands"):
            allowed = any(right == "write" and f"{folder}/".startswith(f"{f}/") for right, f in documented(who))
            with lake.acting(who):
                assert puts(folder) == allowed, (who, folder)


def puts(folder: str) -> bool:
    """Whether a file can be put there."""
    try:
        open_store(f"{LAKE}/{folder}").put("x", b"")
    except SourceUnavailable as error:
        assert "403 Forbidden" in str(error)
        return False
    return True
