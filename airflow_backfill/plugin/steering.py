"""Orders that need Spark: they run where the DAGs of builds run, as a run of a DAG like ``dags/steer.py``."""

from __future__ import annotations

from typing import Any

from airflow.api.common.trigger_dag import trigger_dag
from airflow.exceptions import DagRunAlreadyExists
from airflow.models.dag import DagModel, DagTag
from airflow.sdk.exceptions import AirflowException
from airflow.utils.types import DagRunTriggeredByType
from sqlalchemy import select
from sqlalchemy.orm import Session

from airflow_backfill.core.errors import NotAllowedNow
from airflow_backfill.plugin.access import may_trigger

TAG = "steers table backfills"
"""Of a DAG that takes ``target``, ``verb``, ``why``, ``drop`` and ``epoch`` as parameters, and does what they say."""


def steering_dag(session: Session, user: Any) -> str | None:
    """The first DAG with the tag that the user may trigger, and that is not paused; None if there is none."""
    tagged = (
        select(DagModel.dag_id)
        .join(DagTag, DagTag.dag_id == DagModel.dag_id)
        .where(DagTag.name == TAG, DagModel.is_paused.is_(False), DagModel.is_stale.is_(False))
        .order_by(DagModel.dag_id)
    )
    return next((dag_id for dag_id in session.scalars(tagged) if may_trigger(user, dag_id)), None)


def steer(dag_id: str | None, user: str, order: dict[str, Any], name: str | None = None) -> dict[str, str]:
    """Start a run that carries the order out; only one for a ``name``. NotAllowedNow if there is no DAG for it, or if
    it takes other orders.
    """
    if dag_id is None:
        raise NotAllowedNow(
            f"{order['verb']} needs Spark, but there is no active DAG with the tag {TAG!r} that you may trigger; "
            "add one like dags/steer.py, or ask for permission to trigger it"
        )
    run_id, why = None if name is None else f"page__{name}", order.get("why")
    try:
        run = trigger_dag(
            dag_id,
            triggered_by=DagRunTriggeredByType.UI,
            triggering_user_name=user,
            run_id=run_id,
            conf=order,
            note=why,
        )
    except DagRunAlreadyExists:
        if run_id is None:
            raise
        return {"dag_id": dag_id, "run_id": run_id}
    except (AirflowException, ValueError) as error:
        raise NotAllowedNow(f"{order['verb']}: DAG {dag_id} refuses this order: {error}"[:500]) from None
    assert run is not None
    return {"dag_id": dag_id, "run_id": run.run_id}
