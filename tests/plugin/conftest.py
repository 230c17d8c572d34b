"""The page's API as Airflow mounts it, over Airflow's database."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.airflow.home import HOME
from tests.airflow.task import source
from tests.airflow.without_spark import built

os.environ["AIRFLOW__CORE__AUTH_MANAGER"] = "tests.plugin.permissions.ByDag"
os.environ["AIRFLOW__API_AUTH__JWT_SECRET"] = "a secret of tests " * 4

from fastapi import FastAPI
from fastapi.testclient import TestClient

from airflow_backfill.plugin.plugin import PREFIX, application
from tests.plugin import database

assert os.environ["AIRFLOW_HOME"] == HOME

Client = Callable[[str | None], TestClient]


@pytest.fixture(scope="session")
def served() -> FastAPI:
    """As Airflow mounts it, with Airflow's auth manager and database."""
    from airflow.api_fastapi.app import init_auth_manager

    database.created()
    init_auth_manager()
    app = FastAPI()
    app.mount(PREFIX, application)
    return app


@pytest.fixture
def airflow_rows(served: FastAPI) -> Iterator[None]:
    database.emptied()
    yield


@pytest.fixture
def client(served: FastAPI, airflow_rows: None) -> Client:
    """A client of a user, by name; None is nobody."""
    from airflow.api_fastapi.app import get_auth_manager

    from tests.plugin.permissions import user

    def of(name: str | None) -> TestClient:
        found = TestClient(served, base_url=f"http://airflow.test{PREFIX}/", raise_server_exceptions=False)
        if name is not None:
            found.headers["Authorization"] = f"Bearer {get_auth_manager().generate_jwt(user(name))}"
        return found

    return of


@pytest.fixture
def target(source: Path, tmp_path: Path, airflow_rows: None) -> str:
    """A build of ``orders_dag``, whose snapshot is read."""
    target = str(tmp_path / "orders")
    built(source, Path(target), "plan", "snapshot")
    database.worked("orders_dag", "orders.snapshot", target)
    return target


def key_of(client: Client) -> str:
    """The key of the only build."""
    [build] = client("all").get("builds").json()["builds"]
    found: str = build["key"]
    return found


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)


__all__ = ["source"]
