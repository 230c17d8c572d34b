"""Which tables the tasks of a DAG build, from what Airflow's database says of task instances that drew an attempt, or,
if no run is left, from the DAG's definition.

A browser names a DAG, a run, a task or a key, never a table. An operator of this package leaves two things in the
database: its rendered fields, with the target, and the attempt that it has drawn, in its task state. A task of another
kind has not both. The attempt also lies beside the target, with the DAG that drew it: that settles whose build it is
(``reading``), because whoever may edit a DAG may also edit its task state.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any

from airflow.models.renderedtifields import RenderedTaskInstanceFields as Rendered
from airflow.models.task_state_store import TaskStateStoreModel as Stored
from airflow.models.taskinstance import TaskInstance
from sqlalchemy import ColumnElement, Text, and_, case, cast, func, select
from sqlalchemy.orm import Session

from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.operators.application import ATTEMPT, attempt_in
from airflow_backfill.plugin.declared import Declared, declared
from airflow_backfill.plugin.orders import ORDERS

INSTANCE = ("dag_id", "run_id", "task_id", "map_index")

CLAIMS = 3
"""Attempts of a DAG that are read first to see whether it builds a table: several, because files may be damaged."""
Claims = tuple[tuple[str, tuple[Attempt, ...]], ...]


@dataclass(frozen=True, slots=True)
class Task:
    """A task instance that has drawn an attempt at a table."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    state: str | None
    try_number: int
    at: datetime
    """When it drew its last attempt."""
    attempt: Attempt | None
    """None if the state store keeps its values elsewhere."""

    @property
    def mapped_from(self) -> tuple[str, str, str]:
        return self.dag_id, self.run_id, self.task_id

    def to_json(self) -> dict[str, Any]:
        named = {name: getattr(self, name) for name in (*INSTANCE, "state", "try_number")}
        return {**named, "at": round(self.at.timestamp() * 1000)}


@dataclass(frozen=True, slots=True)
class Table:
    """A table that tasks build, with these tasks, the last one first."""

    target: str
    ledger_conn_id: str | None
    tasks: tuple[Task, ...]
    """Empty if no run is left."""
    declared_by: str = ""
    """The DAG whose definition names the table; only if there are no tasks."""

    @property
    def key(self) -> str:
        """What a browser names the table by."""
        return sha256(self.target.encode()).hexdigest()[:16]

    @property
    def last(self) -> Task | None:
        return self.tasks[0] if self.tasks else None

    @property
    def lanes(self) -> list[Task]:
        """The instances of the task that worked on it last, the last one first: several if Airflow has mapped it."""
        return [task for task in self.tasks if task.mapped_from == self.tasks[0].mapped_from]

    @property
    def dag_id(self) -> str:
        """The DAG that worked on it last."""
        return self.declared_by if self.last is None else self.last.dag_id

    @property
    def claims(self) -> Claims:
        """The DAGs, each with the last attempts that it says it has drawn, the newest first; perhaps with none."""
        found: dict[str, list[Attempt]] = {self.declared_by: []} if self.declared_by else {}
        for task in self.tasks:
            known = found.setdefault(task.dag_id, [])
            if task.attempt is not None and len(known) < CLAIMS:
                known.append(task.attempt)
        return tuple((dag, tuple(attempts)) for dag, attempts in found.items())


def tables(session: Session, dags: Collection[str], targets: Collection[str] | None = None) -> list[Table]:
    """The tables that these DAGs build, only ``targets`` if given; the one that was worked on last first."""
    return _tables(session, dags, declared(session, dags), targets)


def all_tables(session: Session, dags: Collection[str]) -> tuple[list[Table], list[str]]:
    """The tables that these DAGs build; and the DAGs with tables that only a run names, if no task is left of them."""
    definitions = declared(session, dags)
    found = _tables(session, dags, definitions)
    worked = {task.dag_id for table in found for task in table.tasks}
    return found, sorted(dag for dag, one in definitions.items() if one.templated and dag not in worked)


def _tables(
    session: Session,
    dags: Collection[str],
    definitions: Mapping[str, Declared],
    targets: Collection[str] | None = None,
) -> list[Table]:
    found: dict[str, list[Task]] = {}
    connections: dict[str, str | None] = {}
    for target, connection, task in _tasks(session, dags):
        if targets is None or target in targets:
            found.setdefault(target, []).append(task)
            connections.setdefault(target, connection)
    worked_on = [Table(target, connections[target], tuple(tasks)) for target, tasks in found.items()]
    return [*worked_on, *(one for one in _declared(definitions, targets) if one.target not in found)]


def _declared(definitions: Mapping[str, Declared], targets: Collection[str] | None) -> Iterable[Table]:
    """The tables that these definitions name, only ``targets`` if given, each for its first DAG."""
    found: dict[str, Table] = {}
    for dag_id, one in sorted(definitions.items()):
        for target, connection in one.targets.items():
            if targets is None or target in targets:
                found.setdefault(target, Table(target, connection, (), dag_id))
    return found.values()


def named(session: Session, **instance: Any) -> set[str]:
    """The targets in the rendered fields of these task instances, whether they build them, wait for them or neither."""
    query = select(rendered("target")).where(*(getattr(Rendered, name) == value for name, value in instance.items()))
    return {same_target(target) for target in session.scalars(query) if target}


def _tasks(session: Session, dags: Collection[str]) -> Iterable[tuple[str, str | None, Task]]:
    query = (
        select(
            rendered("target"),
            rendered("ledger_conn_id"),
            *(getattr(Stored, name) for name in INSTANCE),
            TaskInstance.state,
            TaskInstance.try_number,
            Stored.updated_at,
            Stored.value,
        )
        .join(Rendered, same_instance(Stored, Rendered))
        .join(TaskInstance, same_instance(Stored, TaskInstance))
        .where(Stored.key == ATTEMPT, Stored.dag_id.in_(dags), TaskInstance.operator.not_in(ORDERS))
        .order_by(Stored.updated_at.desc(), Stored.id.desc())
    )
    for target, connection, dag_id, run_id, task_id, map_index, state, tries, at, value in session.execute(query):
        if target:
            task = Task(dag_id, run_id, task_id, map_index, state, tries, at, _attempt(value))
            yield same_target(target), connection or None, task


def rendered(name: str) -> ColumnElement[str]:
    """A rendered field of a task instance. Null if any of its fields has a NUL character: PostgreSQL then reads none of
    them, and ends the whole query, that is, the page of everybody.
    """
    fields = Rendered.rendered_fields
    text = func.replace(cast(fields, Text), r"\\u0000", "")  # a backslash before these letters
    return case((func.replace(text, r"\u0000", "") != text, None), else_=fields[name].as_string())


def same_instance(one: Any, other: Any) -> Any:
    """The condition that rows of two models are of one task instance."""
    return and_(*(getattr(one, name) == getattr(other, name) for name in INSTANCE))


def same_target(target: str) -> str:
    """One spelling for a target that is named with or without a slash at its end."""
    return target.rstrip("/")


def _attempt(value: str) -> Attempt | None:
    try:
        return attempt_in(json.loads(value))
    except ValueError:
        return None
