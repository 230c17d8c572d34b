"""The hand-off."""

from __future__ import annotations

from typing import Any

from airflow_backfill.core.state import BuildState
from airflow_backfill.core.summary import summarize
from airflow_backfill.core.task import FinishTask
from airflow_backfill.operators.phase import PhaseOperator


class FinishOperator(PhaseOperator):
    """
    Commits the hand-off.

    :param verified: whether the hand-off needs a certificate.
    """

    entry_point = "finish"

    def __init__(self, *, verified: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.verified = verified

    def task(self) -> FinishTask:
        return FinishTask(self.verified)

    def arguments(self) -> list[str]:
        return [*super().arguments(), *([] if self.verified else ["--unverified"])]

    def result(self, state: BuildState) -> dict[str, Any]:
        certificate = summarize(state)["certificate"]
        return {"target": self.target, "build": state.plan.build, "epoch": state.handoff, "certificate": certificate}
