"""Asks a person whether the hand-off may begin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.providers.standard.exceptions import HITLRejectException
from airflow.providers.standard.operators.hitl import ApprovalOperator

from airflow_backfill.core.errors import Rejected
from airflow_backfill.failure import decided

if TYPE_CHECKING:
    from airflow.sdk import Context


class HandoffApprovalOperator(ApprovalOperator):
    """
    Airflow's ``ApprovalOperator``, with all its arguments. A rejection fails it for good: a retry would ask again.

    :param fail_on_reject: whether a rejection fails the task; otherwise the tasks after it are skipped.
    """

    def __init__(self, *, fail_on_reject: bool = True, **kwargs: Any) -> None:
        super().__init__(fail_on_reject=fail_on_reject, **kwargs)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        with decided(context):
            try:
                return super().execute_complete(context, event)
            except HITLRejectException:
                by = (event.get("responded_by_user") or {}).get("name")
                raise Rejected(f"the hand-off was rejected by {by or 'an unnamed user'}", by=by) from None
