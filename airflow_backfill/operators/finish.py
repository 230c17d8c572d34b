"""The hand-off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_backfill.assets.news import Told, refuse_loop, tell
from airflow_backfill.builds.accuracy import accuracy
from airflow_backfill.core.attempts.goals import FinishGoal
from airflow_backfill.core.reports.accuracy import described
from airflow_backfill.core.reports.summary import summarize
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.options import flag
from airflow_backfill.operators.phase import PhaseOperator

if TYPE_CHECKING:
    from airflow.sdk import Context


class FinishOperator(PhaseOperator):
    """
    Commits the hand-off. Its outlets get one event per build, with the epoch and the rows, also after retries.

    :param verified: whether the hand-off needs a certificate.
    """

    entry_point = "finish"

    def __init__(self, *, verified: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.verified = flag("verified", verified)
        refuse_loop(self)

    def task(self) -> FinishGoal:
        return FinishGoal(self.verified)

    def settings(self) -> list[str]:
        return [*super().settings(), *([] if self.verified else ["--unverified"])]

    def result(self, state: BuildState) -> dict[str, Any]:
        summary = summarize(state)
        return {
            "target": self.target,
            "build": state.plan.build,
            "epoch": state.handoff,
            "certificate": summary["certificate"],
        }

    def concluded(self, context: Context, state: BuildState) -> dict[str, Any]:
        totals, certificate = state.totals, state.certificate
        extra = {
            "target": state.plan.spec.target,
            "epoch": state.handoff,
            "rows": certificate.rows if certificate is not None else None,
            "snapshot_rows": totals.snapshot_rows,
            "log_rows": totals.log_rows,
            "log_epochs": totals.log_epochs,
        }

        def once(told: Told) -> dict[str, Any] | None:
            return extra if told is None else None

        tell(context, self, state, once)
        predicted = accuracy(self.ledger.reader(self.target))
        if predicted is not None:
            self.log.info("predicted: %s", described(predicted))
        return self.result(state)
