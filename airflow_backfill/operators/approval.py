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
    """Airflow's ``ApprovalOperator``. A rejection fails it for good: a retry would ask again."""

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        with decided(context):
            try:
                return super().execute_complete(context, event)
            except HITLRejectException:
                by = (event.get("responded_by_user") or {}).get("name")
                raise Rejected(f"the hand-off was rejected by {by or 'an unnamed user'}", by=by) from None
