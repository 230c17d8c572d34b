"""Rejoins an application that outlived its worker: for operators that keep the handle of their job, as those for
spark-submit, Livy and Databricks do (Airflow's ``ResumableJobMixin``).

An application belongs to an attempt, so its handle is stored under the attempt's name. Otherwise a later attempt would
find the ended job of an earlier one, and would start nothing.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeVar

from airflow.sdk import ResumableJobMixin

from airflow_backfill.core.values.attempt import Attempt

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context

log = logging.getLogger(__name__)

Operator = TypeVar("Operator", bound="BaseOperator")


def belonging(operator: Operator, me: Attempt) -> Operator:
    """The operator, which keeps its job's handle for this attempt only."""
    if isinstance(operator, ResumableJobMixin):
        operator.external_id_key = f"{operator.external_id_key}/{me.name}"
    return operator


def still_runs(operator: BaseOperator, context: Context) -> bool:
    """Whether the operator's application was started and still runs, according to the cluster."""
    if not isinstance(operator, ResumableJobMixin) or not operator.durable:
        return False
    handle = context["task_state_store"].get(operator.external_id_key)
    if not handle:
        return False
    try:
        active = operator.is_job_active(operator.get_job_status(handle, context))
    except Exception:
        # A second application is safe, because it fences the first. The cluster may never answer.
        log.warning(
            "cannot get the state of application %s from the cluster; starting another one", handle, exc_info=True
        )
        return False
    if active:
        log.info("rejoining application %s", handle)
    return active


def rejoin(operator: BaseOperator, context: Context) -> None:
    """Wait for the end of an application that still runs; never start another one for the same attempt."""
    assert isinstance(operator, ResumableJobMixin)
    operator.poll_until_complete(context["task_state_store"].get(operator.external_id_key), context)
