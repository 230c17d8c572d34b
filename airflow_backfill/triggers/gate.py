"""Waits at the gate."""

from __future__ import annotations

from typing import Any

from airflow_backfill.core.gate import Waiting
from airflow_backfill.sensors.gate_watch import GateWatch
from airflow_backfill.triggers.poll import PollTrigger


class GateTrigger(PollTrigger):
    """
    Fires when the gate opens, or never will.

    :param watch: where to look and what is asked for, as ``GateWatch.to_json`` says it.
    """

    def __init__(self, *, watch: dict[str, Any], poke_interval: float, deadline: float | None = None) -> None:
        super().__init__(poke_interval=poke_interval, deadline=deadline)
        self.watch = watch
        self._warned = False

    def serialize(self) -> tuple[str, dict[str, Any]]:
        kind = type(self)
        arguments = {"watch": self.watch, "poke_interval": self.poke_interval, "deadline": self.deadline}
        return f"{kind.__module__}.{kind.__qualname__}", arguments

    def due(self) -> bool:
        watch = GateWatch.from_json(self.watch)
        self.warn(watch)
        return not isinstance(watch.gate(), Waiting)

    def warn(self, watch: GateWatch) -> None:
        """Say once if the source will soon no longer keep what is still needed."""
        alarm = None if self._warned else watch.alarm()
        if alarm is not None:
            self.log.warning(alarm)
            self._warned = True
