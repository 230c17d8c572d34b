"""Following the source after the hand-off."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow_backfill.core.state import BuildState
from airflow_backfill.core.task import UpstreamTask
from airflow_backfill.operators.rounds import RoundsOperator


class UpstreamOperator(RoundsOperator):
    """
    Applies what was committed to the source since the target stood still: up to its head, or for a while.

    :param max_runtime: how long to follow the source; one pass up to its head if not given.
    """

    entry_point = "upstream"

    def __init__(self, *, max_runtime: timedelta | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.max_runtime = max_runtime

    def task(self) -> UpstreamTask:
        return UpstreamTask(self.size)

    def arguments(self) -> list[str]:
        limit = self.max_runtime
        return [*super().arguments(), *([] if limit is None else ["--max-runtime", str(limit.total_seconds())])]

    def result(self, state: BuildState) -> dict[str, Any]:
        totals = state.totals
        rows, epochs = totals.upstream_rows, totals.upstream_epochs
        return {"target": self.target, "build": state.plan.build, "epoch": state.applied, "rows": rows, "epochs": epochs}
