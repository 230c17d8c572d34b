"""Who may ask: Airflow's user, its permission on a DAG, and no other site's page.

Airflow does not authenticate mounted applications, so every route does it here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from airflow.configuration import conf
from airflow.models.dag import DagModel
from fastapi import Depends, HTTPException, Request

if TYPE_CHECKING:
    from airflow.api_fastapi.auth.managers.base_auth_manager import ResourceMethod

LOOKS = Depends(requires_access_dag("GET", DagAccessEntity.TASK_INSTANCE))
"""Whoever may look at the task instances of the DAG in the path."""
COMMANDS = Depends(requires_access_dag("PUT", DagAccessEntity.TASK_INSTANCE))
"""Whoever may clear task instances of the DAG in the path."""
JSON = "application/json"


def readable(user: GetUserDep) -> set[str]:
    """The DAGs whose builds the user may look at."""
    return _dags(user, "GET")


def commanded(user: GetUserDep) -> set[str]:
    """The DAGs whose builds the user may command."""
    return _dags(user, "PUT")


def _dags(user: GetUserDep, method: ResourceMethod) -> set[str]:
    """None without the permission on task instances, which some auth managers give apart from that on a DAG."""
    manager = get_auth_manager()
    if not manager.is_authorized_dag(method=method, access_entity=DagAccessEntity.TASK_INSTANCE, user=user):
        return set()
    return manager.get_authorized_dag_ids(user=user, method=method)


def may_command(user: Any, dag_id: str) -> bool:
    """Whether COMMANDS would let the user pass."""
    return _may(user, dag_id, "PUT", DagAccessEntity.TASK_INSTANCE)


def may_trigger(user: Any, dag_id: str) -> bool:
    """Whether the user may start a run of the DAG."""
    return _may(user, dag_id, "POST", DagAccessEntity.RUN)


def _may(user: Any, dag_id: str, method: ResourceMethod, entity: DagAccessEntity) -> bool:
    details = DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id))
    return get_auth_manager().is_authorized_dag(method=method, access_entity=entity, details=details, user=user)


def own_site(request: Request) -> None:
    """Refuse what another site's page makes a browser send: 403; and 415 for what a plain form could send."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise HTTPException(403, "the request comes from another site")
    origin = request.headers.get("origin")
    if origin is not None and _host(origin) not in _hosts(request):
        raise HTTPException(403, "the request comes from another site")
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
        raise HTTPException(415, f"a command must be sent as {JSON}")


OWN_SITE = Depends(own_site)


def _host(url: str) -> str:
    try:
        return urlsplit(url).netloc
    except ValueError:
        return ""


def _hosts(request: Request) -> set[str]:
    return {request.headers.get("host", ""), _host(conf.get("api", "base_url", fallback=""))} - {""}
