from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from airflow import settings
from airflow.models.log import Log
from fastapi import FastAPI
from sqlalchemy import select

from airflow_backfill.core.errors import VerificationFailed
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.hidden import UNSEEN
from airflow_backfill.ledger import control_folder
from airflow_backfill.ledger.reader import BuildReader
from airflow_backfill.plugin import api
from airflow_backfill.plugin.commanding import MAX_BYTES
from airflow_backfill.plugin.plugin import PREFIX
from airflow_backfill.testing.applications import main
from tests.airflow.without_spark import built
from tests.plugin import database
from tests.plugin.conftest import Client, key_of
from tests.plugin.database import RUN, worked

OWN = {"Sec-Fetch-Site": "same-origin"}
PAUSE: dict[str, Any] = {"verb": "pause"}


def ordered(target: str) -> list[str]:
    reader = BuildReader(target)
    return [command.verb.value for _, command in reader.commands(reader.state().plan.build)]


def audited() -> list[tuple[str, str, str]]:
    with settings.Session() as session:
        return [(log.event, log.owner, log.dag_id) for log in session.scalars(select(Log))]


RUN_PATH = f"dags/orders_dag/runs/{RUN}"
PAGES = ("builds", f"{RUN_PATH}/builds", f"{RUN_PATH}/tasks/orders.verify/-1/builds", "dags/orders_dag/builds/KEY")


@pytest.mark.parametrize(
    ("path", "statuses"),
    [
        ("page/main.js", {None: 401, "viewer": 200, "other": 200, "editor": 200}),
        ("builds", {None: 401, "viewer": 200, "other": 200, "editor": 200}),
        (f"{RUN_PATH}/builds", {None: 401, "viewer": 200, "other": 403, "editor": 200}),
        (f"{RUN_PATH}/tasks/orders.snapshot/-1/builds", {None: 401, "viewer": 200, "other": 403, "editor": 200}),
        ("dags/orders_dag/builds/KEY", {None: 401, "viewer": 200, "other": 403, "editor": 200}),
        ("openapi.json", {None: 404, "viewer": 404, "other": 404, "editor": 404}),
    ],
)
def test_who_may_look(path: str, statuses: dict[str | None, int], client: Client, target: str) -> None:
    path = path.replace("KEY", key_of(client))
    assert {user: client(user).get(path).status_code for user in statuses} == statuses


@pytest.mark.parametrize(("user", "status"), [(None, 401), ("viewer", 403), ("other", 403), ("editor", 201)])
def test_who_may_command(user: str | None, status: int, client: Client, target: str) -> None:
    path = f"dags/orders_dag/builds/{key_of(client)}/commands"
    answer = client(user).post(path, json=PAUSE, headers=OWN)
    assert answer.status_code == status, answer.text
    assert ordered(target) == (["pause"] if status == 201 else [])
    assert audited() == ([("table_backfill_pause", "editor", "orders_dag")] if status == 201 else [])


def test_every_route_is_behind_airflows_user() -> None:
    routes = [route for route in api.api.routes if hasattr(route, "dependant")]
    assert len(routes) == 7
    for route in routes:
        assert "get_user" in str([dependency.call for dependency in route.dependant.dependencies])  # type: ignore[attr-defined]


def test_the_overview_shows_the_builds_of_dags_that_the_user_may_look_at(client: Client, target: str) -> None:
    [build] = client("viewer").get("builds").json()["builds"]
    assert (build["name"], build["phase"], build["attention"]) == ("orders", "snapshot", "waits")
    for user in ("other", "no_tasks"):
        assert client(user).get("builds").json()["builds"] == []


def test_a_command_says_who_gave_it(client: Client, target: str) -> None:
    path = f"dags/orders_dag/builds/{key_of(client)}"
    body = {"verb": "throttle", "rate": 7, "why": "nightly load"}
    assert client("editor").post(f"{path}/commands", json=body, headers=OWN).json()["number"] == 1
    [said] = client("viewer").get(path).json()["commands"]
    assert (said["verb"], said["rate"], said["by"], said["why"], said["via"]) == (
        *("throttle", 7, "editor", "nightly load", "page"),
    )
    assert said["at"] is not None and said["acknowledged"] is False
    with settings.Session() as session:
        [extra] = session.scalars(select(Log.extra))
    audit = json.loads(extra)
    assert (audit["target"], audit["rate"], audit["why"], audit["number"]) == (target, 7, "nightly load", 1)


@pytest.mark.parametrize(
    ("body", "status", "code", "names"),
    [
        (b"", 422, "SPEC_INVALID", "JSON"),
        (b"[]", 422, "SPEC_INVALID", "verb"),
        (b'{"verb": "drop"}', 422, "SPEC_INVALID", "verb"),
        (b'{"verb": "pause", "target": "/etc"}', 422, "SPEC_INVALID", "target"),
        (b'{"verb": "pause", "\\ud800": 1}', 422, "SPEC_INVALID", "ud800"),
        (b'{"verb": "pause", "by": "somebody"}', 422, "SPEC_INVALID", "by"),
        (b'{"verb": "throttle", "rate": -1}', 422, "SPEC_INVALID", "rate"),
        (b'{"verb": "throttle", "rate": true}', 422, "SPEC_INVALID", "rate"),
        (b'{"verb": "throttle", "rate": 1e400}', 422, "SPEC_INVALID", "rate"),
        (b'{"verb": "pause", "rate": 5}', 422, "SPEC_INVALID", "rate"),
        (b'{"verb": "cancel", "drop": true}', 422, "SPEC_INVALID", "why"),
        (b'{"verb": "cancel", "drop": true, "why": "  "}', 422, "SPEC_INVALID", "why"),
        (b'{"verb": "pause", "why": "a\\u0000b"}', 422, "SPEC_INVALID", "why"),
        (b'{"verb": "throttle", "rate": 1, "until": 5}', 422, "SPEC_INVALID", "until"),
        (b'{"verb": "skip"}', 409, "NOT_ALLOWED_NOW", "topic"),
        (b'{"verb": "prove", "epoch": 3}', 422, "SPEC_INVALID", "epoch"),
        (b'{"verb": "recover", "epoch": -1, "why": "damaged"}', 422, "SPEC_INVALID", "epoch"),
        (b'{"verb": "recover", "epoch": 3}', 422, "SPEC_INVALID", "why"),
        (b'{"verb": "recover", "epoch": 3, "why": "damaged"}', 409, "NOT_ALLOWED_NOW", "dags/steer.py"),
        (b'{"verb": "explain"}', 422, "SPEC_INVALID", "key"),
        (b'{"verb": "explain", "key": []}', 422, "SPEC_INVALID", "key"),
        (b'{"verb": "explain", "key": "id=1"}', 422, "SPEC_INVALID", "key"),
        (b'{"verb": "explain", "key": [1]}', 422, "SPEC_INVALID", "key"),
        (b'{"verb": "explain", "key": ["id"]}', 422, "SPEC_INVALID", "key"),
        (b'{"verb": "explain", "key": ["id=1"], "since": -1}', 422, "SPEC_INVALID", "since"),
        (b'{"verb": "pause", "key": ["id=1"]}', 422, "SPEC_INVALID", "key"),
        (b'{"verb": "prove", "since": 1}', 422, "SPEC_INVALID", "key"),
        (b'{"verb": "explain", "key": ["id=1"]}', 409, "NOT_ALLOWED_NOW", "dags/steer.py"),
        (b'{"verb": "repair", "why": "it differs"}', 409, "NOT_ALLOWED_NOW", "catch_up"),
        (b" " * 20_000, 422, "SPEC_INVALID", "bytes"),
        (b"\xff\xfe", 422, "SPEC_INVALID", "JSON"),
        (b"[" * 10_000, 422, "SPEC_INVALID", "JSON"),
    ],
)
def test_bad_commands_are_refused(body: bytes, status: int, code: str, names: str, client: Client, target: str) -> None:
    path = f"dags/orders_dag/builds/{key_of(client)}/commands"
    answer = client("editor").post(path, content=body, headers={**OWN, "Content-Type": "application/json"})
    said = answer.json()
    assert (answer.status_code, said["code"]) == (status, code), answer.text
    assert names in said["message"] and said["way_out"]
    assert ordered(target) == [] and audited() == []


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": "http://evil.test"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://["}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Origin": "http://airflow.test"}, 201),
        ({}, 201),
    ],
)
def test_another_site_gives_no_commands(headers: dict[str, str], status: int, client: Client, target: str) -> None:
    path = f"dags/orders_dag/builds/{key_of(client)}/commands"
    sent = {"Content-Type": "application/json", **headers}
    assert client("editor").post(path, content=json.dumps(PAUSE), headers=sent).status_code == status
    assert ordered(target) == (["pause"] if status == 201 else [])


def test_of_a_command_no_more_is_read_than_it_may_have(client: Client, served: FastAPI, target: str) -> None:
    editor, path = client("editor"), f"{PREFIX}/dags/orders_dag/builds/{key_of(client)}/commands"
    headers = {**editor.headers, **OWN, "content-type": "application/json", "host": "airflow.test"}
    scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b""}
    scope["headers"] = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    read, said = 0, []

    async def receive() -> dict[str, Any]:
        nonlocal read
        read += 1
        return {"type": "http.request", "body": b" " * 1_000, "more_body": read < 10_000}

    async def send(message: Any) -> None:
        said.append(message)

    asyncio.run(served(scope, receive, send))
    assert (said[0]["status"], read) == (422, MAX_BYTES // 1_000 + 1)


@pytest.mark.parametrize("path", ["builds", f"{RUN_PATH}/builds", "ONE", "ONE/explanations/1", "ONE/commands"])
def test_airflows_database_does_not_wait_for_a_store(
    path: str, client: Client, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow's pool has fifteen connections, for everything that it does."""
    path = path.replace("ONE", f"dags/orders_dag/builds/{key_of(client)}")
    kept: list[int] = []
    opened = control_folder.open_store
    pool = settings.engine.pool
    monkeypatch.setattr(
        control_folder, "open_store", lambda *given, **more: kept.append(pool.checkedout()) or opened(*given, **more)
    )
    editor = client("editor")
    answer = editor.post(path, json=PAUSE, headers=OWN) if path.endswith("commands") else editor.get(path)
    assert answer.status_code in (200, 201, 404) and set(kept) == {0}


def test_why_a_row_is_as_it_is_shows_to_those_who_may_command(client: Client, target: str) -> None:
    me = BuildReader(target).draw_attempt({"task": "explain", "dag_id": "steer", "task_id": "explain"})
    outcome = main("explain", ["--target", target, *_drawn(me), "--key", "id=42"])
    assert outcome["code"] == "OK", outcome
    path = f"dags/orders_dag/builds/{key_of(client)}/explanations"
    shown = {user: client(user).get(f"{path}/{me.generation}") for user in (None, "viewer", "other", "editor")}
    assert {user: answer.status_code for user, answer in shown.items()} == {
        **{None: 401, "viewer": 403, "other": 403, "editor": 200}
    }
    assert shown["editor"].json()["text"].startswith(f"id=42 in {target}\n")
    assert client("editor").get(f"{path}/1").status_code == 404
    Path(f"{target}.backfill/explanations/{me.generation:09}.json").write_text('{"explanation": {"key": {}}}')
    damaged = client("editor").get(f"{path}/{me.generation}")
    assert (damaged.status_code, damaged.json()["code"]) == (409, "DOCUMENT_DAMAGED")


def test_whoever_may_command_one_dag_sees_no_explanation_of_another(client: Client, target: str) -> None:
    main("explain", ["--target", target, *_drawn(BuildReader(target).draw_attempt({})), "--key", "id=42"])
    path = f"dags/param_dag/builds/{key_of(client)}/explanations"
    generation = BuildReader(target).control.generations(1)[0]
    assert client("editor").get(f"{path}/{generation}").status_code == 404


def _drawn(attempt: Attempt) -> list[str]:
    return ["--generation", str(attempt.generation), "--attempt", attempt.name]


@pytest.mark.parametrize("path", ["dags/orders_dag/builds/0000000000000000", "dags/param_dag/builds/KEY"])
def test_a_dag_has_the_builds_that_its_own_tasks_work_on(path: str, client: Client, target: str) -> None:
    path = path.replace("KEY", key_of(client))
    assert client("editor").get(path).json()["code"] == "NOT_PLANNED"
    answer = client("editor").post(f"{path}/commands", json=PAUSE, headers=OWN)
    assert (answer.status_code, answer.json()["code"]) == (404, "NOT_PLANNED")
    assert ordered(target) == []


def test_a_forged_attempt_opens_no_table_of_another_dag(source: Path, tmp_path: Path, client: Client) -> None:
    """Whoever edits a DAG with a parameter can render any target, and write any attempt into its task state."""
    target = str(tmp_path / "secret")
    built(source, Path(target), "plan", "snapshot")
    worked("secret_dag", "secret.snapshot", target)
    [(generation, document)] = [one for one in BuildReader(target).control.attempts() if "dag_id" in one[1]]
    forged = json.dumps({"generation": generation, "name": document["attempt"]})
    database.ran("param_dag", "plan", target=target, ledger_conn_id=None, attempt=forged)
    [build] = client("editor").get("builds").json()["builds"]
    assert (build["trouble"]["code"], build.get("name")) == ("NOT_PLANNED", None)
    answer = client("editor").post(f"dags/param_dag/builds/{build['key']}/commands", json=PAUSE, headers=OWN)
    assert (answer.status_code, answer.json()["code"]) == (404, "NOT_PLANNED")
    assert "phase" not in client("editor").get(f"dags/param_dag/builds/{build['key']}").json()
    assert ordered(target) == []


def test_a_tab_shows_the_build_of_its_task_and_nothing_for_others(client: Client, target: str) -> None:
    database.ran("orders_dag", "other", target="not a table of ours")
    database.ran("orders_dag", "plain")
    database.ran("orders_dag", "orders.gate", target=f"{target}/")

    def tab(task: str) -> list[str]:
        return [one["name"] for one in client("viewer").get(f"{RUN_PATH}/tasks/{task}/-1/builds").json()["builds"]]

    assert tab("orders.snapshot") == tab("orders.gate") == ["orders"]
    assert tab("other") == tab("plain") == tab("no_such_task") == []
    for odd in ("x", "-2", str(2**31), str(10**30)):
        answer = client("viewer").get(f"{RUN_PATH}/tasks/plain/{odd}/builds")
        assert (answer.status_code, answer.json()["code"]) == (422, "SPEC_INVALID")
    for odd in ("dags/%00/runs/r/builds", "dags/orders_dag/runs/%00/builds", f"{RUN_PATH}/tasks/%00/-1/builds"):
        answer = client("all").get(odd)
        assert (answer.status_code, answer.json()["code"]) == (422, "SPEC_INVALID"), "PostgreSQL would end the query"


def test_a_build_has_what_its_page_draws(client: Client, target: str) -> None:
    database.ran("orders_dag", "orders.verify", target=target, state="failed")
    found = client("editor").get(f"dags/orders_dag/builds/{key_of(client)}").json()
    assert found["may_command"] is True
    assert found["splits"]["cells"] == [
        {"done": 1.0, "said": f"split {n}: stands at epoch 3; files read: 1, files left: 0, rows read: 1"}
        for n in range(4)
    ]
    assert found["splits"]["reading"] == []
    assert [one["phase"] for one in found["phases"]] == ["snapshot"] and found["phases"][0]["to"] is None
    assert [point["event"] for point in found["history"]] == ["claim", "files"]
    assert "nothing to skip" in found["refused"]["skip"] and "pause" not in found["refused"]
    assert [task["task_id"] for task in found["run"]["failed"]] == ["orders.verify"]
    assert client("viewer").get(f"dags/orders_dag/builds/{key_of(client)}").json()["may_command"] is False


def test_a_build_whose_last_attempts_file_is_damaged_is_shown(client: Client, target: str) -> None:
    worked("orders_dag", "orders.consume_log", target)
    file = max(Path(f"{target}.backfill/attempts").glob("?????????.json"))
    file.write_text('{"attempt": ')
    [build] = client("viewer").get("builds").json()["builds"]
    found = client("viewer").get(f"dags/orders_dag/builds/{build['key']}").json()
    for one in (build, found):
        assert (one["phase"], one["trouble"]["code"]) == ("snapshot", "DOCUMENT_DAMAGED")
        assert file.name in one["trouble"]["message"] and one["trouble"]["way_out"]
    assert build["attention"] == "trouble" and found["attempts"][-1]["life"] == "unknown"
    path = f"dags/orders_dag/builds/{build['key']}/commands"
    assert client("editor").post(path, json=PAUSE, headers=OWN).status_code == 201


def test_nothing_is_shown_if_no_readable_attempt_says_whose_build_it_is(client: Client, target: str) -> None:
    file = max(Path(f"{target}.backfill/attempts").glob("?????????.json"))
    file.write_text("")
    [build] = client("viewer").get("builds").json()["builds"]
    assert build.get("phase") is None and build["trouble"]["code"] == "DOCUMENT_DAMAGED"
    answer = client("editor").post(f"dags/orders_dag/builds/{build['key']}/commands", json=PAUSE, headers=OWN)
    assert answer.status_code == 409 and ordered(target) == []


def test_a_build_that_is_planned_shows_as_such(tmp_path: Path, client: Client) -> None:
    attempt = BuildReader(target := str(tmp_path / "later")).draw_attempt({"task": "plan", "dag_id": "orders_dag"})
    stored = json.dumps({"generation": attempt.generation, "name": attempt.name})
    database.ran("orders_dag", "orders.plan", target=target, ledger_conn_id=None, attempt=stored)
    [build] = client("viewer").get("builds").json()["builds"]
    assert (build["target"], build["phase"], build["attention"]) == (target, "planning", "waits")
    found = client("viewer").get(f"dags/orders_dag/builds/{build['key']}").json()
    assert found["phase"] == "planning" and found["attempts"][0]["life"] == "starting"


def test_the_keys_that_differ_show_to_those_who_may_command(client: Client, target: str) -> None:
    me = worked("orders_dag", "orders.verify", target, task="verify", state="failed")
    sample = [{"kind": "missing", "key": {"id": "smith"}}]
    error = VerificationFailed("the copy differs", epoch=3, counts={"missing": 1}, sample=sample)
    BuildReader(target).control.store_outcome(me, error.to_json())
    path = f"dags/orders_dag/builds/{key_of(client)}"
    editor, viewer = (client(user).get(path) for user in ("editor", "viewer"))
    assert editor.json()["difference"]["keys"] == [{**sample[0], "explain": ["id=smith"]}]
    assert viewer.json()["difference"] == {**editor.json()["difference"], "keys": None}
    assert "smith" not in viewer.text
    for everybody in ("builds", f"{RUN_PATH}/builds", f"{RUN_PATH}/tasks/orders.verify/-1/builds"):
        assert "smith" not in client("editor").get(everybody).text


@pytest.mark.parametrize("code", ["KEY_DUPLICATE", "OF_A_NEWER_VERSION"])
@pytest.mark.parametrize("planned", [True, False])
def test_values_of_rows_in_a_message_show_to_those_who_may_command(
    source: Path, tmp_path: Path, client: Client, planned: bool, code: str
) -> None:
    target, task = str(tmp_path / "orders"), "verify" if planned else "plan"
    if planned:
        built(source, Path(target), "plan", "snapshot")
    me = worked("orders_dag", "orders.verify", target, task=task, state="failed")
    error = {"code": code, "message": "2 keys have several rows: smith " + "x" * 3000, "retry": False}
    BuildReader(target).control.store_outcome(me, {**error, "data": {"sample": [{"id": "smith"}]}})
    for path in (path.replace("KEY", key_of(client)) for path in PAGES):
        assert client("editor").get(path).text.count("smith") > 0, path
        told = client("viewer").get(path).text
        assert code in told and UNSEEN in told and "smith" not in told, path


def test_a_message_without_values_shows_to_everybody(client: Client, target: str) -> None:
    me = worked("orders_dag", "orders.verify", target, task="verify", state="failed")
    error = {"code": "HISTORY_LOST", "message": "version 7 is missing", "retry": False, "data": {}}
    BuildReader(target).control.store_outcome(me, error)
    for path in (path.replace("KEY", key_of(client)) for path in PAGES):
        assert "version 7 is missing" in client("viewer").get(path).text, path


def test_the_row_of_a_topics_build_comes_with_its_records(client: Client, target: str) -> None:
    reader = BuildReader(target)
    me = reader.draw_attempt({"task": "explain"})
    one = {"partition": 0, "from": 0, "to": 8, "kafka_from": 2, "gone": 2}
    record = {"partition": 0, "offset": 3, "at": 5, "kept_by": ["kafka"], "fate": "missed", "tombstone": True}
    record |= {"undecodable": None, "image": {"id": 42}, "made": None, "applied_in": None}
    found = {
        **{"target": target, "key": {"id": "42"}, "holds": [], "should_hold": None, "verdict": "unknown", "why": "so"},
        "topic": {"name": "clicks", "landing_epoch": 1, "partitions": [one], "error": {"message": "no broker"}},
        **{"records": [record], "truncated": True},
    }
    reader.control.store_explanation(me, found)
    path = f"dags/orders_dag/builds/{key_of(client)}/explanations/{me.generation}"
    topic = client("editor").get(path).json()["topic"]
    assert (topic["why"], topic["holds"], topic["should"]) == ("so", "no row", None)
    assert topic["looked_at"] == "clicks, partition 0: offsets 0 to 8 looked at" and len(topic["warnings"]) == 3
    [shown] = topic["records"]
    assert (shown["place"], shown["at"], shown["kept"]) == ("offset 3 of partition 0", 5, "only in Kafka")
    assert shown["had"] == '{"id": 42}' and "tombstone" in shown["made"] and "never landed" in shown["fate"]
