"""Asks a person whether the hand-off may begin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.exceptions import HITLRejectException
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Param

from airflow_backfill.core.errors import Rejected
from airflow_backfill.core.values.signature import MAX_CHARACTERS, WHY, attributed
from airflow_backfill.failure import decided

if TYPE_CHECKING:
    from airflow.sdk import Context


class HandoffApprovalOperator(ApprovalOperator):
    """
    Airflow's ``ApprovalOperator``, with all its arguments. A rejection fails it for good: a retry would ask again.

    :param fail_on_reject: whether a rejection fails the task; otherwise the tasks after it are skipped.
    :param params: what to ask beside the answer. By default, ``why``: a reason, which may be left out.
    """

    def __init__(self, *, fail_on_reject: bool = True, params: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(fail_on_reject=fail_on_reject, params=_reason() if params is None else params, **kwargs)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        with decided(context):
            try:
                return super().execute_complete(context, event)
            except HITLRejectException:
                by = (event.get("responded_by_user") or {}).get("name")
                why = (event.get("params_input") or {}).get(WHY)
                raise Rejected(f"the hand-off was {attributed('rejected', by, why)}", by=by, why=why) from None


def _reason() -> dict[str, Param]:
    most = MAX_CHARACTERS[WHY]
    reason = Param(None, "The reason for your answer", title="Why", type=["null", "string"], maxLength=most)
    return {WHY: reason}
