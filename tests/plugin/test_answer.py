"""An approval that is answered from outside of Airflow's UI, by Airflow's own routes and the page's."""

from __future__ import annotations

import json
import time

import httpx
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from airflow_backfill.cli.main import main
from airflow_backfill.core.errors import BackfillError, InvalidSpec, NotAllowedNow, NotPlanned, SourceUnavailable
from airflow_backfill.hooks.airflow_api import AirflowApiHook
from airflow_backfill.operators.answer import AnswerOperator
from airflow_backfill.plugin.plugin import PREFIX, application
from tests.cli.schema import check
from tests.plugin import database
from tests.plugin.conftest import Client

APPROVAL = "orders.approve"


@pytest.fixture
def server(served: FastAPI, airflow_rows: None, monkeypatch: pytest.MonkeyPatch) -> FastAPI:
    """The page beside the routes with which Airflow takes an answer, without a network."""
    from airflow.api_fastapi.core_api.routes.public import public_router

    both = FastAPI()
    both.mount(PREFIX, application)
    both.include_router(public_router)
    monkeypatch.setattr(
        httpx, "Client", lambda base_url, timeout: TestClient(both, base_url, raise_server_exceptions=False)
    )
    return both


@pytest.fixture
def hook(server: FastAPI, monkeypatch: pytest.MonkeyPatch) -> AirflowApiHook:
    return of("editor", monkeypatch)


def of(user: str, monkeypatch: pytest.MonkeyPatch) -> AirflowApiHook:
    """The hook of a user, who has a token."""
    from airflow.api_fastapi.app import get_auth_manager

    from tests.plugin import permissions

    token = get_auth_manager().generate_jwt(permissions.user(user))
    monkeypatch.setenv("AIRFLOW_CONN_AIRFLOW_API", f'{{"conn_type": "http", "host": "airflow", "password": "{token}"}}')
    return AirflowApiHook()


@pytest.mark.parametrize(("answer", "option"), [("approve", "Approve"), ("reject", "Reject")])
def test_airflow_takes_the_answer_once(hook: AirflowApiHook, target: str, answer: str, option: str) -> None:
    database.asks("orders_dag", APPROVAL, -1)
    told = {"target": target, "answer": answer, "task": APPROVAL}
    assert hook.answer(target, answer) == {**told, "again": False}
    assert database.answers() == [([option], "editor", {})]
    assert hook.answer(f"{target}/", answer) == {**told, "target": f"{target}/", "again": True}
    other = {"approve": "reject", "reject": "approve"}[answer]
    with pytest.raises(NotAllowedNow, match=f"{APPROVAL} has the answer {option} by editor"):
        hook.answer(target, other)
    assert database.answers() == [([option], "editor", {})]


def test_an_answer_has_a_reason(hook: AirflowApiHook, target: str, client: Client) -> None:
    database.asks("orders_dag", APPROVAL, -1)
    hook.answer(target, "approve", "the sums agree")
    assert database.answers() == [(["Approve"], "editor", {"why": "the sums agree"})]
    [build] = client("viewer").get("builds").json()["builds"]
    [told] = client("viewer").get(f"dags/orders_dag/builds/{build['key']}").json()["run"]["answered"]
    assert (told["answer"], told["by"], told["why"]) == ("Approve", "editor", "the sums agree")
    assert abs(told["at"] / 1000 - time.time()) < 60


@pytest.mark.parametrize("params", [[], ["ticket"], ["why", "ticket"]])
def test_a_question_that_takes_no_reason(hook: AirflowApiHook, target: str, params: list[str]) -> None:
    """Airflow would take it, and the task would fail."""
    database.asks("orders_dag", APPROVAL, -1, params)
    with pytest.raises(NotAllowedNow, match=f"{APPROVAL} takes no reason"):
        hook.answer(target, "approve", "the sums agree")
    hook.answer(target, "approve")
    assert database.answers() == [(["Approve"], "editor", {})]


def test_a_reason_that_is_no_line(hook: AirflowApiHook, target: str) -> None:
    database.asks("orders_dag", APPROVAL, -1)
    with pytest.raises(InvalidSpec, match="why"):
        hook.answer(target, "approve", "two\nlines")


def test_nobody_is_asked(hook: AirflowApiHook, target: str) -> None:
    with pytest.raises(NotAllowedNow, match="no task asks for an approval"):
        hook.answer(target, "approve")
    database.asks("orders_dag", APPROVAL, -1)
    database.rejects("orders_dag", APPROVAL, -1, "ann")
    with pytest.raises(NotAllowedNow, match="was rejected by ann; clear it"):
        hook.answer(target, "approve")


def test_a_rejection_may_be_repeated_after_its_task_has_failed(hook: AirflowApiHook, target: str) -> None:
    database.asks("orders_dag", APPROVAL, -1)
    database.rejects("orders_dag", APPROVAL, -1, "ann")
    assert hook.answer(target, "reject")["again"]


def test_nobody_has_answered_in_time(hook: AirflowApiHook, target: str) -> None:
    database.asks("orders_dag", APPROVAL, -1)
    database.rejects("orders_dag", APPROVAL, -1, None)
    for answer in ("approve", "reject"):
        with pytest.raises(NotAllowedNow, match="was not approved in time; clear it"):
            hook.answer(target, answer)


@pytest.mark.parametrize("answer", ["approve", "reject"])
def test_the_answer_of_a_task_that_is_cleared_does_not_count(hook: AirflowApiHook, target: str, answer: str) -> None:
    """Airflow keeps it until the task asks again."""
    database.asks("orders_dag", APPROVAL, -1)
    hook.answer(target, answer)
    database.clears("orders_dag", APPROVAL, -1)
    with pytest.raises(NotAllowedNow, match="no task asks"):
        hook.answer(target, answer)


def test_of_several_approvals_none_is_guessed(hook: AirflowApiHook, target: str) -> None:
    for task in (APPROVAL, "orders.approve_too"):
        database.asks("orders_dag", task, -1)
    with pytest.raises(NotAllowedNow, match=r"orders\.approve, orders\.approve_too"):
        hook.answer(target, "approve")
    assert database.answers() == [(None, None, {})] * 2


def test_a_table_that_no_dag_builds(hook: AirflowApiHook, target: str) -> None:
    with pytest.raises(NotPlanned, match="/lake/none"):
        hook.answer("/lake/none", "approve")
    with pytest.raises(InvalidSpec, match="answer"):
        hook.answer(target, "maybe")


@pytest.mark.parametrize(("user", "kind"), [("viewer", InvalidSpec), ("other", NotPlanned)])
def test_airflow_decides_whose_answer_counts(
    server: FastAPI, target: str, user: str, kind: type[BackfillError], monkeypatch: pytest.MonkeyPatch
) -> None:
    database.asks("orders_dag", APPROVAL, -1)
    with pytest.raises(kind):
        of(user, monkeypatch).answer(target, "approve")
    assert database.answers() == [(None, None, {})]


def test_a_token_that_is_none(server: FastAPI, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_AIRFLOW_API", '{"conn_type": "http", "host": "airflow", "password": "none"}')
    with pytest.raises(InvalidSpec, match="status 403: Invalid JWT token; check login"):
        AirflowApiHook().answer(target, "approve")


@pytest.mark.parametrize(
    ("status", "text", "kind"),
    [
        (502, "", SourceUnavailable),
        (404, "", InvalidSpec),
        (422, "{}", InvalidSpec),
        (200, "<html>sign in", SourceUnavailable),
        (409, "{}", NotAllowedNow),
    ],
)
def test_what_a_proxy_answers_is_a_coded_error(
    hook: AirflowApiHook, status: int, text: str, kind: type[BackfillError], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = httpx.MockTransport(lambda request: httpx.Response(status, text=text))
    monkeypatch.undo()
    monkeypatch.setenv("AIRFLOW_CONN_AIRFLOW_API", '{"conn_type": "http", "host": "airflow", "password": "none"}')
    made = httpx.Client
    monkeypatch.setattr(httpx, "Client", lambda base_url, timeout: made(base_url=base_url, transport=said))
    with pytest.raises(kind):
        AirflowApiHook().answer("/lake/orders", "approve")


@pytest.mark.parametrize(("given", "why"), [("None", {}), ("sums differ", {"why": "sums differ"})])
def test_in_a_dag(hook: AirflowApiHook, target: str, given: str, why: dict[str, str]) -> None:
    database.asks("orders_dag", APPROVAL, -1)
    operator = AnswerOperator(task_id="answer", target=target, answer="reject", why=given)
    assert operator.execute({}) == {"target": target, "answer": "reject", "task": APPROVAL, "again": False}
    assert database.answers() == [(["Reject"], "editor", why)]


def test_on_the_command_line(hook: AirflowApiHook, target: str, capsys: pytest.CaptureFixture[str]) -> None:
    database.asks("orders_dag", APPROVAL, -1)
    assert main(["approve", target, "--why", "sums agree"]) == 0
    assert database.answers() == [(["Approve"], "editor", {"why": "sums agree"})]
    assert capsys.readouterr().out == f"task {APPROVAL} has your answer: approve\n"
    assert main(["approve", target]) == 0
    assert capsys.readouterr().out == f"task {APPROVAL} already had your answer: approve\n"
    assert main(["approve", target, "--json"]) == 0
    check("answer", json.loads(capsys.readouterr().out))
    assert main(["reject", target, "--json"]) == 1
    assert '"code": "NOT_ALLOWED_NOW"' in capsys.readouterr().err
