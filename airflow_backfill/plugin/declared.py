"""Which tables DAGs say they build, from their definitions in Airflow's database: for builds of which no run is left.
The attempts beside a table settle whose build it is, as for tables that tasks have rendered (``reading``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from airflow.models.dag import DagModel
from airflow.models.dag_version import DagVersion
from airflow.models.serialized_dag import SerializedDagModel as Serialized
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from airflow_backfill.core.errors import InvalidSpec
from airflow_backfill.ledger.location import Location
from airflow_backfill.operators.application import ApplicationOperator
from airflow_backfill.plugin.orders import ORDERS

_AT_ONCE = 50
"""Definitions that are in memory at one time."""
_TEMPLATE = ("{{", "{%")
_PLANNED = "xcom_pull"
"""In the target of a task that builds what another task has planned."""


@dataclass(frozen=True, slots=True)
class Declared:
    """What the definition of a DAG says."""

    targets: Mapping[str, str | None]
    """The tables that it builds, each with its connection."""
    templated: bool
    """Whether it builds tables whose names or connections are known in a run only."""


_KNOWN: dict[str, tuple[str, Declared]] = {}
"""By DAG: the hash of its definition, and what that says. A definition is large, and seldom changes."""


def declared(session: Session, dags: Collection[str]) -> dict[str, Declared]:
    """What the newest definitions of these DAGs say, of those that build tables and that Airflow still finds."""
    newest = (
        select(DagVersion.dag_id, func.max(DagVersion.version_number).label("number"))
        .join(Serialized, Serialized.dag_version_id == DagVersion.id)
        .where(DagVersion.dag_id.in_(dags))
        .group_by(DagVersion.dag_id)
        .subquery()
    )
    hashes = (
        select(Serialized.dag_id, Serialized.dag_hash, Serialized.id)
        .join(DagVersion, Serialized.dag_version_id == DagVersion.id)
        .join(newest, (DagVersion.dag_id == newest.c.dag_id) & (DagVersion.version_number == newest.c.number))
        .join(DagModel, DagModel.dag_id == Serialized.dag_id)
        .where(DagModel.is_stale.is_(False))
    )
    found = session.execute(hashes).all()
    unread = [key for dag_id, digest, key in found if _KNOWN.get(dag_id, ("",))[0] != digest]
    for first in range(0, len(unread), _AT_ONCE):
        for one in session.scalars(select(Serialized).where(Serialized.id.in_(unread[first : first + _AT_ONCE]))):
            _KNOWN[one.dag_id] = one.dag_hash, declared_in(one.data or {})
            session.expunge(one)
    told = {dag_id: _KNOWN[dag_id][1] for dag_id, _, _ in found if dag_id in _KNOWN}
    return {dag_id: one for dag_id, one in told.items() if one.targets or one.templated}


def declared_in(definition: Mapping[str, Any]) -> Declared:
    """What a serialized DAG says. A task that has the target of another task from XCom says nothing."""
    targets: dict[str, str | None] = {}
    templated = False
    for task in _builders(definition):
        target, connection = (_given(task, name) for name in ("target", "ledger_conn_id"))
        if isinstance(target, str) and _PLANNED in target:
            continue
        if isinstance(target, str) and _is_location(target) and not _is_template(f"{target}{connection or ''}"):
            targets.setdefault(target.rstrip("/"), connection or None)
        else:
            templated = True
    return Declared(targets, templated)


def _is_template(text: str) -> bool:
    return any(mark in text for mark in _TEMPLATE)


def _is_location(text: str) -> bool:
    """Whether a table can be there. An argument of a mapped task group is serialized as what Python shows of it."""
    try:
        Location.parse(text)
    except InvalidSpec:
        return False
    return True


def _builders(definition: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The tasks that run applications of builds, as this package's operators and those made from them do."""
    for one in definition.get("dag", {}).get("tasks", ()):
        task = one.get("__var", {})
        ours = set(ApplicationOperator.template_fields) <= set(task.get("template_fields") or ())
        if ours and task.get("task_type") not in ORDERS:
            yield task


def _given(task: Mapping[str, Any], name: str) -> Any:
    """An argument of a task, mapped or not; None if it is mapped itself."""
    return task.get(name, (task.get("partial_kwargs") or {}).get(name))
