"""The page's API under the FAB auth manager, in a real API server: the status of each route for each kind of user."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import pytest

from airflow_backfill.ledger.reader import BuildReader
from tests.airflow.without_spark import built, make_source
from tests.plugin.airflow_process import AirflowProcess
from tests.plugin.database import RUN
from tests.plugin.fab_users import USERS

FAB = "airflow.providers.fab"
pytestmark = [pytest.mark.soak, pytest.mark.airflow]

NAMES = ["orders", "parcels"]
WORKED = """
import sys
from tests.plugin.database import worked
for name in ("orders", "parcels"):
    worked(f"shop_{name}", f"{name}.snapshot", f"{sys.argv[1]}/marts/{name}")
"""


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowProcess]:
    """An API server with two builds, each of a DAG of its own."""
    place = tmp_path_factory.mktemp("shop")
    for name in NAMES:
        built(make_source(place / "raw" / name), place / "marts" / name, "plan", "snapshot")
    airflow = AirflowProcess(
        place, NAMES, more={"CORE__AUTH_MANAGER": f"{FAB}.auth_manager.fab_auth_manager.FabAuthManager"}
    )
    airflow.run("db", "migrate")
    airflow.run("-m", "tests.plugin.fab_users")
    airflow.run("dags", "reserialize")
    airflow.run("-c", WORKED, str(place))
    with airflow.serving("api-server"):
        yield airflow


def key(airflow: AirflowProcess, name: str) -> str:
    return sha256(f"{airflow.place}/marts/{name}".encode()).hexdigest()[:16]


READS = {"viewer", "user", "op", "editor", "looker", "without_runs"}
"""Users who may look at task instances of ``shop_orders``."""
EDITS = {"user", "op", "editor"}
"""Users who may edit them: FAB asks for edit of the DAG, of DAG runs and of task instances."""


def statuses(airflow: AirflowProcess, method: str, path: str, body: Any = None) -> dict[str | None, int]:
    return {user: airflow.answer(user, method, f"table-backfill/{path}", body).status_code for user in (None, *USERS)}


def expected(allowed: set[str], status: int = 200) -> dict[str | None, int]:
    return {None: 401, **{user: status if user in allowed else 403 for user in USERS}}


def test_each_route_for_each_kind_of_user(airflow: AirflowProcess) -> None:
    build, run = f"dags/shop_orders/builds/{key(airflow, 'orders')}", f"dags/shop_orders/runs/{RUN}"
    assert statuses(airflow, "GET", "page/main.js") == statuses(airflow, "GET", "builds") == expected({*USERS})
    for path in (f"{run}/builds", f"{run}/tasks/orders.snapshot/-1/builds", build):
        assert statuses(airflow, "GET", path) == expected(READS), path
    assert statuses(airflow, "GET", f"{build}/explanations/1") == expected(EDITS, 404), "there is none"
    assert statuses(airflow, "POST", f"{build}/commands", {"verb": "pause"}) == expected(EDITS, 201)
    reader = BuildReader(f"{airflow.place}/marts/orders")
    assert [one.signed.by for _, one in reader.commands(reader.state().plan.build)] == ["user", "op", "editor"]


def test_the_overview_has_the_builds_of_dags_that_a_user_may_look_at(airflow: AirflowProcess) -> None:
    shown = {user: airflow.ask(user, "GET", "table-backfill/builds")["builds"] for user in USERS}
    both, orders = {"shop_orders", "shop_parcels"}, {"shop_orders"}
    assert {user: {one["dag_id"] for one in builds} for user, builds in shown.items()} == {
        **dict.fromkeys(("viewer", "user", "op"), both),
        **dict.fromkeys(("editor", "looker", "without_runs"), orders),
        **{"other": {"shop_parcels"}, "without_tasks": set(), "public": set()},
    }
    for builds in shown.values():
        assert all(one["phase"] == "snapshot" for one in builds)


def test_who_sees_that_there_is_a_page(airflow: AirflowProcess) -> None:
    """Airflow's own list of plugins decides; the built-in roles Viewer and User lack it."""
    found = {
        user: airflow.answer(user, "GET", "api/v2/plugins").status_code for user in ("viewer", "user", "op", "looker")
    }
    assert found == {"viewer": 403, "user": 403, "op": 200, "looker": 200}
