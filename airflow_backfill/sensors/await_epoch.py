"""Waits until a target has reached an epoch of its source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_backfill.core.values.options import choice, invalid
from airflow_backfill.sensors.build import BuildSensor
from airflow_backfill.watching.epochs import REACHED, reached_epoch

if TYPE_CHECKING:
    from airflow.triggers.base import BaseTrigger


class AwaitEpochSensor(BuildSensor):
    """
    Opens when a target has reached an epoch of its source, and returns the epoch that the target has reached.

    ``applied`` guarantees the rows: the target equals the transformed source at that epoch. ``seen`` only guarantees
    that a chain has announced the epoch: its rows may follow later, while the snapshot is read.

    :param epoch: the epoch to wait for. (templated)
    :param reached: "applied", or "seen".
    """

    template_fields: Sequence[str] = (*BuildSensor.template_fields, "epoch")

    def __init__(self, *, epoch: int | str, reached: str = "applied", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.epoch = epoch
        self.reached = choice({"reached": reached}, "reached", REACHED)

    def look(self) -> Any:
        return reached_epoch(self.watched, self._epoch, self.reached)

    def trigger(self, deadline: float) -> BaseTrigger:
        from airflow_backfill.triggers.epoch import EpochTrigger

        return EpochTrigger(epoch=self._epoch, reached=self.reached, **self.polling(deadline))

    @property
    def _epoch(self) -> int:
        if not str(self.epoch).strip().isdecimal():
            raise invalid("epoch", self.epoch, "must be a whole number, 0 or more")
        return int(self.epoch)
