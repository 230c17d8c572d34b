"""The last phase before the hand-off."""

from __future__ import annotations

from typing import Any

from airflow_backfill.core.attempts.goals import CatchUpGoal
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.operators.rounds import LogRoundsOperator


class CatchUpOperator(LogRoundsOperator):
    """Pins the hand-off epoch and applies the last epochs exactly up to it.

    A retry or a clear uses the same hand-off epoch.
    """

    entry_point = "catch_up"

    def task(self) -> CatchUpGoal:
        return CatchUpGoal(self.size, self.lag, self.patience)

    def result(self, state: BuildState) -> dict[str, Any]:
        return {"target": self.target, "build": state.plan.build, "epoch": state.handoff}
