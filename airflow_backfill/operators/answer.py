"""Answers the approval of a hand-off from another DAG."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_backfill.failure import decided
from airflow_backfill.hooks.airflow_api import AirflowApiHook
from airflow_backfill.links.target import TargetLink
from airflow_backfill.operators.signed import NONE

if TYPE_CHECKING:
    from airflow.sdk import Context


class AnswerOperator(BaseOperator):
    """
    Approves or rejects the hand-off of a build, as the user of a connection: Airflow takes the answer only if it has
    asked that user. A retry or a clear of the task changes nothing.

    :param target: location of the target table. (templated)
    :param answer: approve or reject. (templated)
    :param why: the reason, for whoever looks at the build. (templated)
    :param airflow_conn_id: connection of type ``http`` to Airflow's API server: its base URL, and login and password of
        a user, or as the password alone a token. (templated)
    """

    template_fields: Sequence[str] = ("target", "answer", "why", "airflow_conn_id")
    operator_extra_links = (TargetLink(),)
    ui_color = "#f5e6d3"

    def __init__(
        self,
        *,
        target: str,
        answer: str,
        why: str | None = None,
        airflow_conn_id: str = AirflowApiHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.target = target
        self.answer = answer
        self.why = why
        self.airflow_conn_id = airflow_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        with decided(context):
            why = None if self.why in NONE else str(self.why)
            found = AirflowApiHook(self.airflow_conn_id).answer(self.target, self.answer, why)
        self.log.info("%s: task %s has the answer %s", self.target, found["task"], self.answer)
        return found
