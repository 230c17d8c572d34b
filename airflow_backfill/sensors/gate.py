"""The gate between consuming the log and catching up."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_backfill.core.gates.gate import Broken, Waiting
from airflow_backfill.sensors.build import BuildSensor
from airflow_backfill.watching.conditions import Window, max_lag_of
from airflow_backfill.watching.gate_watch import GateWatch

if TYPE_CHECKING:
    from airflow.triggers.base import BaseTrigger


class GateSensor(BuildSensor):
    """
    Opens when the hand-off may begin: at most ``max_lag`` is pending, no hold is in force, and the window is open.
    Fails for good if the build cannot go on.

    The lag is the one in the build's newest record: no task applies epochs while the gate waits.

    :param max_lag: how much of the log may be pending: a number of epochs, or the age of the oldest one.
    :param window: when the hand-off may begin: two times of day and a time zone, e.g.
        ``("22:00", "06:00", "Europe/Berlin")``. By default any time.
    """

    def __init__(self, *, max_lag: int | timedelta = 10, window: Sequence[str] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.max_lag = max_lag_of(max_lag)
        self.window = None if window is None else Window.parse(window)

    @property
    def watch(self) -> GateWatch:
        return GateWatch(
            target=self.target,
            max_lag=self.max_lag,
            build=self.build,
            window=self.window,
            ledger_conn_id=self.ledger_conn_id,
        )

    def look(self) -> Any:
        match self.watch.gate().verdict:
            case Waiting() as waiting:
                return waiting
            case Broken(error):
                raise error
            case ready:
                return {"target": self.target, "build": self.build, "epoch": ready.epoch}

    def trigger(self, deadline: float) -> BaseTrigger:
        from airflow_backfill.triggers.gate import GateTrigger

        return GateTrigger(watch=self.watch.to_json(), deadline=deadline, poke_interval=self.poke_interval)
