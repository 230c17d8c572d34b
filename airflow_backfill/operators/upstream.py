"""Follows the source after the hand-off."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_backfill.assets.news import Told, refuse_loop, tell
from airflow_backfill.core.attempts.goals import UpstreamGoal
from airflow_backfill.core.source.identity import check_source
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.duration import duration
from airflow_backfill.core.values.phase import Phase
from airflow_backfill.ledger.clock import now_ms
from airflow_backfill.operators.rounds import RoundsOperator

if TYPE_CHECKING:
    from airflow.sdk import Context


class UpstreamOperator(RoundsOperator):
    """
    Applies the epochs since the last run: up to the source's head, or for ``max_runtime``.

    It only needs the target, whose log has the plan. Its outlets get an event, with the epoch and the counts, if rows
    of the target changed since their last event.

    :param max_runtime: how long to follow the source; by default one pass up to its head.
    """

    entry_point = "upstream"

    def __init__(self, *, max_runtime: timedelta | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.max_runtime = None if max_runtime is None else duration("max_runtime", max_runtime)
        refuse_loop(self)

    def proceed(self, context: Context, *, ran: bool = False) -> dict[str, Any]:
        state = self.committed()
        if not ran and self.max_runtime is None and state.phase in (Phase.FINISHED, Phase.UPSTREAM):
            now = now_ms()
            source = self.ledger.watcher(state.plan).glance(state.reached, {commit.version for commit in state.stands})
            check_source(state.plan, source, state.reached, state.stands)
            if not source.count(state.reached) and not self.ledger.reader(self.target).aging(state, now):
                return self.concluded(context, state)
        return super().proceed(context, ran=ran)

    def task(self) -> UpstreamGoal:
        return UpstreamGoal(self.size)

    def settings(self) -> list[str]:
        limit = self.max_runtime
        return [*super().settings(), *([] if limit is None else ["--max-runtime", str(limit.total_seconds())])]

    def result(self, state: BuildState) -> dict[str, Any]:
        return {"target": self.target, "build": state.plan.build, "epoch": state.applied}

    def concluded(self, context: Context, state: BuildState) -> dict[str, Any]:
        totals = state.totals

        def since(told: Told) -> dict[str, Any] | None:
            before = told or {}
            rows = totals.upstream_rows - before.get("total_rows", 0)
            if rows <= 0:  # after a rewind there are fewer, until they are applied again
                return None
            return {
                "target": state.plan.spec.target,
                "epoch": state.applied,
                "rows": rows,
                "epochs": totals.upstream_epochs - before.get("total_epochs", 0),
                "total_rows": totals.upstream_rows,
                "total_epochs": totals.upstream_epochs,
            }

        tell(context, self, state, since)
        return self.result(state)
