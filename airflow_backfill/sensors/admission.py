"""Holds back a writer of the source while a build consumes its log."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_backfill.core.gates.max_lag import MAX_LAG
from airflow_backfill.sensors.build import BuildSensor
from airflow_backfill.watching.conditions import max_lag_of
from airflow_backfill.watching.pressure import pressure

if TYPE_CHECKING:
    from airflow.triggers.base import BaseTrigger


class AdmissionSensor(BuildSensor):
    """
    Comes before a task that writes to the source of a build, and opens while at most ``max_lag`` is pending.

    Holds a writer back only while the build consumes the log, and never for good: it opens if there is no such build,
    if the build is paused, held or stopped by an error, and after ``timeout``. Returns False after ``timeout``, else
    True.

    :param max_lag: how much of the log may be pending: a number of epochs, or the age of the oldest one. Must not be
        larger than the build's ``max_lag``, or the build may never reach that.
    :param timeout: seconds that a writer is held back at most.
    """

    def __init__(self, *, max_lag: int | timedelta = MAX_LAG, timeout: float = 600.0, **kwargs: Any) -> None:
        super().__init__(timeout=timeout, **kwargs)
        self.max_lag = max_lag_of(max_lag)

    def look(self) -> Any:
        return pressure(self.watched, self.max_lag) or True

    def late(self) -> Any:
        self.log.warning(
            "the writer may commit after a timeout of %s, although %s",
            timedelta(seconds=self.timeout),
            "; ".join(self._told),
        )
        return False

    def trigger(self, deadline: float) -> BaseTrigger:
        from airflow_backfill.triggers.admission import AdmissionTrigger

        return AdmissionTrigger(max_lag=(self.max_lag.epochs, self.max_lag.age), **self.polling(deadline))
