"""The phase that follows the source until the hand-off is close."""

from __future__ import annotations

from typing import Any

from airflow_backfill.core.state import BuildState
from airflow_backfill.core.task import ConsumeLogTask
from airflow_backfill.operators.log_rounds import LogRoundsOperator


class ConsumeLogOperator(LogRoundsOperator):
    """Applies what was committed to the source since the snapshot, until at most ``max_lag`` is pending."""

    entry_point = "consume_log"

    def task(self) -> ConsumeLogTask:
        return ConsumeLogTask(self.size, self.lag, self.patience)

    def result(self, state: BuildState) -> dict[str, Any]:
        return {"target": self.target, "build": state.plan.build, "epoch": state.applied}
