"""The proof that the target equals its source."""

from __future__ import annotations

from typing import Any

from airflow_backfill.core.attempts.goals import VerifyGoal
from airflow_backfill.core.reports.summary import summarize
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.operators.phase import PhaseOperator


class VerifyOperator(PhaseOperator):
    """Compares all rows of the target with the transformed source at the hand-off epoch, and commits a certificate.

    Fails for good if they differ, and names keys that differ.
    """

    entry_point = "verify"

    def task(self) -> VerifyGoal:
        return VerifyGoal()

    def result(self, state: BuildState) -> dict[str, Any]:
        certificate = summarize(state)["certificate"]
        return {"target": self.target, "build": state.plan.build, "certificate": certificate}
