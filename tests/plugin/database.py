"""Rows of Airflow's database, as tasks of this package leave them."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any
from uuid import uuid4

from airflow import settings
from airflow.models.base import Base
from airflow.models.dag import DagModel
from airflow.models.dagbundle import DagBundleModel
from airflow.models.dagrun import DagRun
from airflow.models.hitl import HITLDetail
from airflow.models.renderedtifields import RenderedTaskInstanceFields
from airflow.models.serialized_dag import SerializedDagModel
from airflow.models.task_state_store import TaskStateStoreModel
from airflow.models.taskinstance import TaskInstance, clear_task_instances
from airflow.sdk import DAG
from airflow.serialization.serialized_objects import LazyDeserializedDAG
from airflow.utils.db import import_all_models
from airflow.utils.session import create_session
from sqlalchemy import delete, insert, select, update
from sqlalchemy.orm import Session

from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.ledger.reader import BuildReader

RUN = "manual__2026-01-01T00:00:00+00:00"
BUNDLE = "dags-folder"
NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)


def created() -> None:
    """The tables, without migrations: those take ten seconds."""
    import_all_models()
    Base.metadata.create_all(settings.engine)


def emptied() -> None:
    with create_session() as session:
        for table in reversed(Base.metadata.sorted_tables):
            session.execute(delete(table))


def ran(dag_id: str, task_id: str, *, run_id: str = RUN, map_index: int = -1, **told: Any) -> None:
    """A task instance that ran. ``target``, ``ledger_conn_id``, ``approval``: its rendered fields. ``attempt``: the one
    that it drew; none if it is no application. ``at``: when, in seconds since 1970. ``state``, ``operator``: of the
    task instance.
    """
    at = datetime.fromtimestamp(told.get("at", time.time()), timezone.utc)
    with create_session() as session:
        run = _run(session, dag_id, run_id)
        instance = {"dag_id": dag_id, "run_id": run_id, "task_id": task_id, "map_index": map_index}
        of_airflow = {"pool": "default_pool", "pool_slots": 1, "state": told.get("state", "running"), "try_number": 1}
        of_airflow |= {"operator": told.get("operator", "SnapshotOperator"), "start_date": at}
        _put(session, TaskInstance, id=uuid4(), **instance, **of_airflow)
        fields = {name: told[name] for name in ("target", "ledger_conn_id", "approval") if name in told}
        _put(session, RenderedTaskInstanceFields, **instance, rendered_fields=fields)
        if "attempt" in told:
            _put(
                session,
                TaskStateStoreModel,
                dag_run_id=run,
                **instance,
                key="attempt",
                value=told["attempt"],
                updated_at=at,
            )


def waits(dag_id: str, task_id: str, map_index: int, reason: str, run_id: str = RUN) -> None:
    """A task that has run waits for this."""
    with create_session() as session:
        run = _run(session, dag_id, run_id)
        where = {"dag_run_id": run, "dag_id": dag_id, "run_id": run_id, "task_id": task_id, "map_index": map_index}
        _put(session, TaskStateStoreModel, **where, key="waiting", value=json.dumps([reason]), updated_at=NOW)


def asks(dag_id: str, task_id: str, map_index: int, params: Sequence[str] = ("why",)) -> None:
    """A task asks for an approval, and for ``params``, and nobody has answered."""
    ran(dag_id, task_id, map_index=map_index, state="awaiting_input", operator="ApprovalOperator")
    where = {"dag_id": dag_id, "run_id": RUN, "task_id": task_id, "map_index": map_index}
    with create_session() as session:
        instance = session.scalar(select(TaskInstance.id).filter_by(**where))
        session.execute(update(TaskInstance).filter_by(**where).values(next_method="execute_complete"))
        question = {"options": ["Approve", "Reject"], "subject": "Hand over?", "multiple": False}
        question |= {"params": {name: {"value": None} for name in params}}
        _put(session, HITLDetail, ti_id=instance, **question, params_input={}, assignees=[])


def answers() -> list[tuple[list[str] | None, str | None, dict[str, Any] | None]]:
    """What was answered to each question, by whom, and what to its params."""
    with create_session() as session:
        return [
            (one.chosen_options, one.responded_by_user_name, one.params_input)
            for one in session.scalars(select(HITLDetail))
        ]


def rejects(dag_id: str, task_id: str, map_index: int, by: str | None, why: str | None = None) -> None:
    """A user rejects what the task has asked for; None: nobody answers in time."""
    where = {"dag_id": dag_id, "run_id": RUN, "task_id": task_id, "map_index": map_index}
    with create_session() as session:
        session.execute(update(TaskInstance).filter_by(**where).values(state="failed"))
        if by is not None:
            answer = {"responded_at": NOW, "responded_by": {"id": by, "name": by}, "chosen_options": ["Reject"]}
            answer |= {"params_input": {} if why is None else {"why": why}}
            session.execute(update(HITLDetail).values(**answer))


def clears(dag_id: str, task_id: str, map_index: int) -> None:
    """A user clears the task."""
    with create_session() as session:
        where = {"dag_id": dag_id, "run_id": RUN, "task_id": task_id, "map_index": map_index}
        clear_task_instances(list(session.scalars(select(TaskInstance).filter_by(**where))), session)


def worked(dag_id: str, task_id: str, target: str, *, task: str = "snapshot", **told: Any) -> Attempt:
    """A task that drew an attempt at the target; ``task`` is its application."""
    attempt = BuildReader(target).draw_attempt({"task": task, "dag_id": dag_id, "task_id": task_id})
    stored = json.dumps({"generation": attempt.generation, "name": attempt.name})
    ran(dag_id, task_id, target=target, ledger_conn_id=None, attempt=stored, **told)
    return attempt


def defined(dag: DAG) -> None:
    """A DAG as Airflow's processor leaves it, with no run."""
    with create_session() as session:
        _dag(session, dag.dag_id)
        session.flush()
        SerializedDagModel.write_dag(LazyDeserializedDAG.from_dag(dag), bundle_name=BUNDLE, session=session)


def forgotten(dag_id: str) -> None:
    """All runs of a DAG are deleted, with their tasks."""
    with create_session() as session:
        for model in (TaskStateStoreModel, RenderedTaskInstanceFields, TaskInstance, DagRun):
            session.execute(delete(model).where(model.dag_id == dag_id))


def ended(dag_id: str, state: str) -> None:
    """The run of a DAG is over."""
    with create_session() as session:
        session.execute(update(DagRun).where(DagRun.dag_id == dag_id).values(_state=state))


def stale(dag_id: str) -> None:
    """A DAG that Airflow does not find any more."""
    with create_session() as session:
        session.execute(update(DagModel).where(DagModel.dag_id == dag_id).values(is_stale=True))


def _run(session: Session, dag_id: str, run_id: str) -> int:
    _dag(session, dag_id)
    known = select(DagRun.id).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id)
    if (found := session.scalar(known)) is None:
        _put(session, DagRun, dag_id=dag_id, run_id=run_id, run_type="manual", state="running", run_after=NOW)
        found = session.scalar(known)
    assert found is not None
    return int(found)


def _dag(session: Session, dag_id: str) -> None:
    if session.get(DagBundleModel, BUNDLE) is None:
        _put(session, DagBundleModel, name=BUNDLE)
    if session.get(DagModel, dag_id) is None:
        limits = {"max_active_tasks": 16, "max_consecutive_failed_dag_runs": 0, "has_task_concurrency_limits": False}
        _put(session, DagModel, dag_id=dag_id, bundle_name=BUNDLE, is_stale=False, **limits)


def _put(session: Session, model: Any, **row: Any) -> None:
    session.execute(insert(model).values(**row))
