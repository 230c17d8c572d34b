"""Waits at the gate."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from airflow_backfill.telling.metrics import tell_progress
from airflow_backfill.telling.warnings import warnings
from airflow_backfill.triggers.poll import PollTrigger
from airflow_backfill.watching.gate_watch import GateWatch, Observation


class GateTrigger(PollTrigger):
    """
    Fires when the gate opens, or never will, or the task has a new warning to tell. Sends the build's metrics.

    :param watch: the build and the conditions of its gate, from ``GateWatch.to_json``.
    :param warn_lag: seconds that the oldest pending epoch may be pending, before that is a warning; None for ever.
    :param known: the kinds of warnings that the task knows already.
    """

    arguments = (*PollTrigger.arguments, "watch", "warn_lag", "known")

    def __init__(
        self,
        *,
        watch: dict[str, Any],
        poke_interval: float,
        deadline: float | None = None,
        warn_lag: float | None = None,
        known: Sequence[str] = (),
    ) -> None:
        super().__init__(poke_interval=poke_interval, deadline=deadline)
        self.watch = watch
        self.warn_lag = warn_lag
        self.known = list(known)

    @cached_property
    def _watch(self) -> GateWatch:
        return GateWatch.from_json(self.watch)

    def due(self) -> bool:
        observed = self.look(self._watch)
        tell_progress(observed.progress)
        return observed.wake or not warnings(observed.progress, self.warn_lag).keys() <= set(self.known)

    def look(self, watch: GateWatch) -> Observation:
        return watch.gate()
