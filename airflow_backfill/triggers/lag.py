"""Watches a target that is fresh enough, while its hand-off is held back."""

from __future__ import annotations

from airflow_backfill.triggers.gate import GateTrigger
from airflow_backfill.watching.gate_watch import GateWatch, Sight


class LagTrigger(GateTrigger):
    """Fires when the target has fallen behind far enough to start Spark again, when the hand-off is no longer held
    back, or when the build cannot go on: its source lost the history it needs, or it was cancelled.
    """

    def look(self, watch: GateWatch) -> Sight:
        return watch.live()
