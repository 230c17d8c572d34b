"""An order whose answer was lost can be sent again: with the same id it is given once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from airflow import settings
from airflow.models.dag import DagModel, DagTag
from airflow.models.dagrun import DagRun
from airflow.models.tasklog import LogTemplate
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Param
from airflow.utils.session import create_session
from sqlalchemy import select, update

from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.core.values.signature import Signature
from airflow_backfill.ledger.control_folder import ControlFolder
from airflow_backfill.ledger.reader import BuildReader
from airflow_backfill.plugin.steering import TAG
from tests.plugin import database
from tests.plugin.conftest import Client, key_of
from tests.plugin.test_api import OWN

ID = "0f3c9a7e-5d21"


@pytest.fixture
def send(client: Client, target: str) -> Any:
    path = f"dags/orders_dag/builds/{key_of(client)}/commands"

    def sends(**body: Any) -> Any:
        return client("editor").post(path, json=body, headers=OWN)

    return sends


def given(target: str) -> list[tuple[str, int | None, str | None]]:
    reader = BuildReader(target)
    commands = reader.commands(reader.state().plan.build)
    return [(one.verb.value, one.rate, one.signed.by) for _, one in commands]


def test_a_command_that_is_sent_twice_is_given_once(send: Any, target: str) -> None:
    answers = [send(verb="throttle", rate=7, id=ID).json()["number"] for _ in range(3)]
    assert answers == [1, 1, 1] and given(target) == [("throttle", 7, "editor")]


def test_a_command_that_is_sent_again_before_it_is_answered_is_given_once(target: str) -> None:
    """By two servers of the API, which have both seen no command. The clock goes on between them."""
    build = BuildReader(target).state().plan.build
    start = Barrier(8)

    def gives(n: int) -> int:
        control = ControlFolder.beside(target)
        start.wait()
        command = Command(Verb.PAUSE, signed=Signature(by="editor", via="page/0f3c9a7e", at=n + 1))
        return control.order(build, command, once=True)

    with ThreadPoolExecutor(8) as pool:
        numbers = set(pool.map(gives, range(8)))
    assert len(numbers) == 1 and len(given(target)) == 1


def test_without_an_id_it_is_another_command(send: Any, target: str) -> None:
    assert [send(verb="pause").json()["number"] for _ in range(2)] == [1, 2]


def test_an_id_that_is_used_again_hides_no_other_command(send: Any, target: str) -> None:
    for body in ({"rate": 7}, {"rate": 8}, {"rate": 7, "why": "night"}):
        send(verb="throttle", id=ID, **body)
    send(verb="pause", id=ID)
    assert [(verb, rate) for verb, rate, _ in given(target)] == [
        *(("throttle", rate) for rate in (7, 8, 7)),
        ("pause", None),
    ]


@pytest.mark.parametrize("wrong", ["", "short", "x" * 65, "with space in it", "ümlaut-in-it", 12345678, ["12345678"]])
def test_an_id_has_letters_and_digits(send: Any, target: str, wrong: Any) -> None:
    answer = send(verb="pause", id=wrong)
    assert (answer.status_code, answer.json()["code"]) == (422, "SPEC_INVALID") and "id" in answer.json()["message"]
    assert given(target) == []


@pytest.fixture
def steering(airflow_rows: None) -> str:
    """A DAG that carries orders out; the editor may trigger it."""
    with DAG(
        "param_dag",
        schedule=None,
        params={
            "target": Param("", type="string"),
            "verb": "explain",
            "key": Param([], type="array"),
            "why": "",
            "since": 0,
        },
    ) as dag:
        EmptyOperator(task_id="does_it")
    database.defined(dag)
    with create_session() as session:
        session.add(DagTag(name=TAG, dag_id=dag.dag_id))
        session.add(LogTemplate(filename="{{ ti.task_id }}", elasticsearch_id="{{ ti.task_id }}"))  # a run refers to it
        session.execute(update(DagModel).values(is_paused=False))
    return dag.dag_id


def runs(dag_id: str) -> list[str]:
    with settings.Session() as session:
        return list(session.scalars(select(DagRun.run_id).where(DagRun.dag_id == dag_id)))


def test_an_order_that_needs_spark_and_is_sent_twice_has_one_run(send: Any, steering: str) -> None:
    answers = [send(verb="explain", key=["id=1"], why="after the incident", id=ID) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 201], answers[0].text
    told = [answer.json()["run"] for answer in answers]
    assert told[0] == told[1] and runs(steering) == [told[0]["run_id"]]
    send(verb="explain", key=["id=1"], why="after the repair", id=ID)
    send(verb="explain", key=["id=1"], why="after the repair")
    assert len(set(runs(steering))) == 3


@pytest.mark.parametrize(
    ("user", "path", "headers", "status"),
    [
        (None, "builds", {}, 401),
        ("other", "dags/orders_dag/builds/0000000000000000", {}, 403),
        ("editor", "nothing", {}, 404),
        ("editor", "dags/orders_dag/builds/KEY/commands", {"Sec-Fetch-Site": "cross-site"}, 403),
        ("editor", "dags/orders_dag/builds/KEY/commands", {"Content-Type": "text/plain"}, 415),
    ],
)
def test_whatever_is_refused_has_a_code_and_a_way_out(
    client: Client, target: str, user: str | None, path: str, headers: dict[str, str], status: int
) -> None:
    path = path.replace("KEY", key_of(client))
    sent = {"Content-Type": "application/json", **headers}
    asked = client(user)
    answer = asked.post(path, content=b'{"verb": "pause"}', headers=sent) if headers else asked.get(path)
    said = answer.json()
    assert (answer.status_code, said["code"], said["retry"]) == (status, f"HTTP_{status}", False)
    assert said["message"] and said["way_out"]
