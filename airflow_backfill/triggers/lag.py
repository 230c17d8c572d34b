"""Watches a fresh target while its gate is closed."""

from __future__ import annotations

from airflow_backfill.triggers.gate import GateTrigger
from airflow_backfill.watching.gate_watch import GateWatch, Observation


class LagTrigger(GateTrigger):
    """Fires when the lag is large enough to start Spark again, when the gate opens, or when the build cannot go on."""

    def look(self, watch: GateWatch) -> Observation:
        return watch.live()
