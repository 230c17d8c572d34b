"""Waits at the gate."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from airflow_backfill.triggers.poll import PollTrigger
from airflow_backfill.watching.gate_watch import GateWatch, Observation


class GateTrigger(PollTrigger):
    """
    Fires when the gate opens, or never will. Warns once if the source will soon delete needed history.

    :param watch: the build and the conditions of its gate, from ``GateWatch.to_json``.
    """

    def __init__(self, *, watch: dict[str, Any], poke_interval: float, deadline: float | None = None) -> None:
        super().__init__(poke_interval=poke_interval, deadline=deadline)
        self.watch = watch
        self._warned = False

    def serialize(self) -> tuple[str, dict[str, Any]]:
        kind = type(self)
        arguments = {"watch": self.watch, "poke_interval": self.poke_interval, "deadline": self.deadline}
        return f"{kind.__module__}.{kind.__qualname__}", arguments

    @cached_property
    def _watch(self) -> GateWatch:
        return GateWatch.from_json(self.watch)

    def due(self) -> bool:
        observed = self.look(self._watch)
        if observed.alarm is not None and not self._warned:
            self.log.warning(observed.alarm)
            self._warned = True
        return observed.wake

    def look(self, watch: GateWatch) -> Observation:
        return watch.gate()
