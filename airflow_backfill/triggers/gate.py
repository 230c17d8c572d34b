"""Waits at the gate."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from airflow_backfill.notifications.metrics import tell_progress
from airflow_backfill.notifications.warnings import due, times_told, warnings
from airflow_backfill.triggers.poll import PollTrigger
from airflow_backfill.watching.gate_watch import GateWatch, Observation


class GateTrigger(PollTrigger):
    """
    Fires when the gate opens, or never will, or the task has a warning to tell. Sends the build's metrics.

    :param watch: the build and the conditions of its gate, from ``GateWatch.to_json``.
    :param warn_lag: seconds that the oldest pending epoch may be pending, before that is a warning; None for ever.
    :param known: when the task has told each kind of warning, in milliseconds since 1970.
    """

    arguments = (*PollTrigger.arguments, "watch", "warn_lag", "known")

    def __init__(
        self,
        *,
        watch: dict[str, Any],
        poke_interval: float,
        deadline: float | None = None,
        warn_lag: float | None = None,
        known: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(poke_interval=poke_interval, deadline=deadline)
        self.watch = watch
        self.warn_lag = warn_lag
        self.known = known or {}

    @cached_property
    def _watch(self) -> GateWatch:
        return GateWatch.from_json(self.watch)

    def due(self) -> bool:
        observed = self.look(self._watch)
        tell_progress(observed.progress)
        found = warnings(observed.progress, self.warn_lag)
        now = observed.progress["seen"]
        return observed.wake or bool(due(found, times_told(self.known, now), now))

    def look(self, watch: GateWatch) -> Observation:
        return watch.gate()
