"""Registers the page and its API with Airflow.

Every process of Airflow loads its plugins, workers too. The API is imported with its first request only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.plugins_manager import AirflowPlugin

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

NAME = "Table backfills"
PREFIX = "/table-backfill"
ROUTE = "table-backfills"
_BUNDLE = f"{PREFIX.lstrip('/')}/page/main.js"  # relative, so that it is found behind a base URL


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """The API."""
    from airflow_backfill.plugin.api import api

    await api(scope, receive, send)


def _shown(destination: str, route: str, **more: Any) -> dict[str, Any]:
    return {"name": NAME, "bundle_url": _BUNDLE, "destination": destination, "url_route": route, **more}


class TableBackfillPlugin(AirflowPlugin):
    """A page over all builds, and a tab on each DAG run and task instance."""

    name = "table_backfill"
    fastapi_apps = [{"name": NAME, "app": application, "url_prefix": PREFIX}]  # noqa: RUF012 - as Airflow's base
    react_apps = [  # noqa: RUF012
        _shown("nav", ROUTE, category="browse"),
        _shown("dag_run", f"{ROUTE}-of-run"),
        _shown("task_instance", f"{ROUTE}-of-task"),
    ]
