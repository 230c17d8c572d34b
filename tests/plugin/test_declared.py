"""Builds of which Airflow keeps no run are found by the definitions of their DAGs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG, task_group
from airflow.serialization.serialized_objects import DagSerialization

from airflow_backfill.operators.cancel import CancelOperator
from airflow_backfill.operators.plan import PlanOperator
from airflow_backfill.operators.upstream import UpstreamOperator
from airflow_backfill.plugin.declared import Declared, declared_in
from airflow_backfill.sensors.await_epoch import AwaitEpochSensor
from airflow_backfill.task_groups.backfill import BackfillTaskGroup
from tests.plugin import database
from tests.plugin.conftest import Client, key_of
from tests.plugin.test_api import OWN, PAUSE, ordered

Tasks = Callable[[], Any]


def dag_of(dag_id: str, tasks: Tasks) -> DAG:
    with DAG(dag_id, start_date=datetime(2026, 1, 1), schedule=None) as dag:
        tasks()
    return dag


def group(target: str, **more: Any) -> Tasks:
    return lambda: BackfillTaskGroup("orders", source="/raw/orders", target=target, key=["id"], **more)


def mapped() -> None:
    PlanOperator.partial(task_id="plan", source="/raw/orders", name="orders").expand(target=["/a", "/b"])


def mapped_group() -> None:
    @task_group
    def build(target: str) -> None:
        group(target)()

    build.expand(target=["/a", "/b"])


@pytest.mark.parametrize(
    ("tasks", "says"),
    [
        (group("/marts/orders/", lanes=2, ledger_conn_id="lake"), Declared({"/marts/orders": "lake"}, False)),
        (group("/marts/{{ params.table }}"), Declared({}, True)),
        (group("/marts/orders", ledger_conn_id="{{ params.lake }}"), Declared({}, True)),
        (mapped, Declared({}, True)),
        (mapped_group, Declared({}, True)),
        (lambda: UpstreamOperator(task_id="follow", target="/marts/orders"), Declared({"/marts/orders": None}, False)),
        (lambda: CancelOperator(task_id="cancel", target="/marts/orders"), Declared({}, False)),
        (lambda: AwaitEpochSensor(task_id="wait", target="/marts/orders", epoch=3), Declared({}, False)),
    ],
    ids=["group", "template", "connection", "mapped", "mapped group", "follower", "order", "sensor"],
)
def test_what_the_definition_of_a_dag_says(tasks: Tasks, says: Declared) -> None:
    assert declared_in(DagSerialization.to_dict(dag_of("orders_dag", tasks))) == says


def test_a_build_of_which_no_run_is_left_shows_to_the_same_users_and_takes_commands(
    client: Client, target: str
) -> None:
    database.defined(dag_of("orders_dag", group(target)))
    database.defined(dag_of("other_dag", group(target)))
    before = client("viewer").get("builds").json()["builds"]
    path = f"dags/orders_dag/builds/{key_of(client)}"
    database.forgotten("orders_dag")
    [build] = client("viewer").get("builds").json()["builds"]
    known = ("key", "dag_id", "target", "name", "phase", "attention", "dags")
    assert {name: build[name] for name in known} == {name: before[0][name] for name in known}
    assert build["tasks"] == [] and client("viewer").get(path).json()["name"] == "orders"
    assert client("other").get("builds").json()["builds"] == [], "another DAG only names the table"
    paths = {user: client(user).get(path).status_code for user in (None, "viewer", "other", "editor")}
    assert paths == {None: 401, "viewer": 200, "other": 403, "editor": 200}
    for user, status in (("viewer", 403), ("other", 403), ("editor", 201)):
        assert client(user).post(f"{path}/commands", json=PAUSE, headers=OWN).status_code == status
    stolen = path.replace("orders_dag", "other_dag")
    assert client("other").post(f"{stolen}/commands", json=PAUSE, headers=OWN).status_code == 404
    assert "phase" not in client("other").get(stolen).json() and ordered(target) == ["pause"]


def test_a_dag_that_has_built_nothing_yet_or_is_gone_shows_nothing(client: Client, target: str, tmp_path: Path) -> None:
    database.defined(dag_of("param_dag", group(str(tmp_path / "later"))))
    assert [one["dag_id"] for one in client("editor").get("builds").json()["builds"]] == ["orders_dag"]
    database.defined(dag_of("orders_dag", group(target)))
    database.forgotten("orders_dag")
    database.stale("orders_dag")
    assert client("editor").get("builds").json()["builds"] == []


def test_a_changed_definition_is_read_again(client: Client, target: str) -> None:
    database.defined(dag_of("orders_dag", group("/nowhere/orders")))
    database.forgotten("orders_dag")
    assert client("viewer").get("builds").json()["builds"] == []
    database.defined(dag_of("orders_dag", group(target)))
    assert [one["target"] for one in client("viewer").get("builds").json()["builds"]] == [target]


def test_dags_whose_builds_only_a_run_would_tell_are_named(client: Client, target: str) -> None:
    database.defined(dag_of("orders_dag", group("{{ params.target }}")))
    database.defined(dag_of("param_dag", group("/marts/{{ params.table }}")))

    def named(user: str) -> list[str]:
        found: list[str] = client(user).get("builds").json()["templated"]
        return found

    assert (named("editor"), named("viewer"), named("other")) == (["param_dag"], [], [])
    database.forgotten("orders_dag")
    assert (named("editor"), named("viewer")) == (["orders_dag", "param_dag"], ["orders_dag"])
