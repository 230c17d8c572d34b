"""What Airflow knows of the run that works on a build: tasks that failed, what its gate waits for, who is asked."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from airflow.models.dagrun import DagRun
from airflow.models.hitl import HITLDetail
from airflow.models.renderedtifields import RenderedTaskInstanceFields as Rendered
from airflow.models.task_state_store import TaskStateStoreModel as Stored
from airflow.models.taskinstance import TaskInstance
from airflow.utils.state import State
from sqlalchemy import and_, func, or_, select
from sqlalchemy.orm import Session

from airflow_backfill.core.values.signature import WHY, attributed
from airflow_backfill.notifications.shown import WAITING
from airflow_backfill.plugin.orders import ORDERS
from airflow_backfill.plugin.tasks import INSTANCE, Table, Task, rendered, same_instance, same_target

_WAITS = ("deferred", "running", "up_for_reschedule")
_ASKING = ("awaiting_input", "deferred")


def run_of(session: Session, table: Table) -> dict[str, Any]:
    """Of the run that started a task of the table last, even if none of its tasks has drawn an attempt, because their
    goals were reached: ``failed``, the task instances to clear; ``gate``, why tasks of the build wait, in words;
    ``gate_at``, when they looked at that last, in milliseconds since 1970: in the triggerer a task does not say more;
    ``asked``, the approvals that nobody has answered, and whether they take a reason; ``answered``, the answers that
    count, by whom, when and why: a cleared task has its old one until it asks again; ``refused``, those that failed,
    and how. Nothing of all this if no run is left.
    """
    ours = rendered("target").in_((table.target, f"{table.target}/"))
    started = (
        select(TaskInstance)
        .join(Rendered, same_instance(TaskInstance, Rendered))
        .where(TaskInstance.dag_id == table.dag_id, ours, TaskInstance.operator.not_in(ORDERS))
        .where(TaskInstance.start_date.is_not(None))
        .order_by(TaskInstance.start_date.desc())
        .limit(1)
    )
    newest = session.scalar(started) or table.last
    if newest is None:
        nothing: dict[str, Any] = {name: [] for name in ("failed", "gate", "asked", "answered", "refused")}
        return {"dag_id": table.dag_id, "run_id": None, **nothing, "gate_at": None}
    run = (TaskInstance.dag_id == newest.dag_id, TaskInstance.run_id == newest.run_id)
    failed = (
        select(TaskInstance)
        .join(Rendered, same_instance(TaskInstance, Rendered))
        .where(*run, TaskInstance.state == "failed", ours)
    )
    waiting = (
        select(TaskInstance.task_id, TaskInstance.map_index, Stored.value, Stored.updated_at)
        .join(Stored, same_instance(TaskInstance, Stored))
        .join(Rendered, same_instance(TaskInstance, Rendered))
        .where(*run, TaskInstance.state.in_(_WAITS), Stored.key == WAITING, ours)
    )
    unanswered = and_(HITLDetail.responded_at.is_(None), TaskInstance.state.in_(_ASKING))
    counts = or_(TaskInstance.state.in_(State.finished), TaskInstance.next_method.is_not(None))
    answered = and_(HITLDetail.responded_at.is_not(None), counts)
    approvals = (
        select(TaskInstance, HITLDetail)
        .join(HITLDetail, HITLDetail.ti_id == TaskInstance.id)
        .where(*run, or_(unanswered, answered, TaskInstance.state == "failed"))
    )
    drawn = (task for task in table.tasks if (task.dag_id, task.run_id) == (newest.dag_id, newest.run_id))
    worked = next(drawn, newest)
    mine = _place(worked.task_id, -1), _place(worked.task_id, worked.map_index)
    waited_for = _waited_for(session, newest)
    told = [(value, at) for task, n, value, at in session.execute(waiting) if _place(task, n) in mine]
    ours_too = [
        (task, detail)
        for task, detail in session.execute(approvals)
        if table.target in waited_for.get((task.task_id, task.map_index), ())
        or ((task.task_id, task.map_index) not in waited_for and _place(task.task_id, task.map_index) in mine)
    ]
    refused = [(task, detail) for task, detail in ours_too if task.state == "failed"]
    return {
        "dag_id": newest.dag_id,
        "run_id": newest.run_id,
        "failed": [_instance(task) for task in [*(task for task, _ in refused), *session.scalars(failed)]],
        "gate": [reason for value, _ in told for reason in _texts(value)],
        "gate_at": min((round(1000 * at.timestamp()) for _, at in told), default=None),
        "asked": [
            {
                **_instance(task),
                "subject": detail.subject,
                "options": detail.options,
                "takes_why": set(detail.params or ()) == {WHY},
            }
            for task, detail in ours_too
            if task.state != "failed" and not detail.response_received
        ],
        "answered": [
            {
                **_instance(task),
                "answer": ", ".join(detail.chosen_options or []),
                "by": detail.responded_by_user_name,
                "why": _why(detail),
                "at": round(1000 * at.timestamp()),
            }
            for task, detail in ours_too
            if (at := detail.responded_at) is not None
        ],
        "refused": [{**_instance(task), "how": _how(detail)} for task, detail in refused],
    }


def ended_in(session: Session, found: Collection[Table]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """The task instances that ended in the newest runs of the DAGs that worked on these tables last, by DAG and target:
    that failed, or were skipped in a run that failed, as at its ``dagrun_timeout``. Some of them have drawn no attempt,
    such as a gate whose time is over.
    """
    newest = (
        select(func.max(DagRun.id))
        .where(DagRun.dag_id.in_({table.dag_id for table in found}))
        .group_by(DagRun.dag_id)
        .scalar_subquery()
    )
    query = (
        select(rendered("target"), TaskInstance)
        .join(Rendered, same_instance(TaskInstance, Rendered))
        .join(DagRun, (DagRun.dag_id == TaskInstance.dag_id) & (DagRun.run_id == TaskInstance.run_id))
        .where(DagRun.id.in_(newest), TaskInstance.operator.not_in(ORDERS))
        .where(or_(TaskInstance.state == "failed", and_(TaskInstance.state == "skipped", DagRun.state == "failed")))
        .order_by(TaskInstance.state, TaskInstance.task_id, TaskInstance.map_index)
    )
    ended: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for target, task in session.execute(query):
        if target:
            ended.setdefault((task.dag_id, same_target(target)), []).append(_instance(task))
    return ended


def _waited_for(session: Session, run: TaskInstance | Task) -> dict[tuple[str, int], set[str]]:
    """The targets whose tasks in a run wait for an approval, by the approval's task and map index. Beside each other,
    without task groups, nothing else tells whose it is.
    """
    query = select(rendered("approval"), Rendered.map_index, rendered("target")).where(
        Rendered.dag_id == run.dag_id, Rendered.run_id == run.run_id
    )
    found: dict[tuple[str, int], set[str]] = {}
    for approval, n, target in session.execute(query):
        if approval and target:
            found.setdefault((approval, n), set()).add(same_target(target))
    return found


def _instance(task: TaskInstance) -> dict[str, Any]:
    return {name: getattr(task, name) for name in (*INSTANCE, "state", "try_number")}


def _why(detail: HITLDetail) -> str | None:
    return (detail.params_input or {}).get(WHY)


def _how(detail: HITLDetail) -> str:
    """How an approval was refused, in words."""
    by = detail.responded_by_user_name
    return "not approved in time" if by is None else attributed("rejected", by, _why(detail))


def _place(task_id: str, map_index: int) -> tuple[str, int]:
    """The task group, and which expansion of it: tasks of one build are in one. Lanes are expanded without their group,
    whose other tasks have the index -1.
    """
    return task_id.rpartition(".")[0], map_index


def _texts(value: str) -> list[str]:
    try:
        found = json.loads(value)
    except ValueError:
        return []
    return [str(text) for text in found] if isinstance(found, list) else []
