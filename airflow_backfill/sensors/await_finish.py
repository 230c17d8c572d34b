"""Waits for the committed hand-off of a build."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_backfill.sensors.build import BuildSensor
from airflow_backfill.watching.epochs import first_epoch

if TYPE_CHECKING:
    from airflow.triggers.base import BaseTrigger


class AwaitFinishSensor(BuildSensor):
    """Opens when the hand-off is committed in the target's log, and returns the first epoch after it.

    Nothing else opens it: no event, no state of a task, no timeout. It fails for good if another writer changed the
    target's rows, or if the build was cancelled.
    """

    def look(self) -> Any:
        return first_epoch(self.watched)

    def trigger(self, deadline: float) -> BaseTrigger:
        from airflow_backfill.triggers.finish import FinishTrigger

        return FinishTrigger(**self.polling(deadline))
