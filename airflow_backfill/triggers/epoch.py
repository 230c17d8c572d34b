"""Waits for an epoch to reach a target."""

from __future__ import annotations

from typing import Any

from airflow_backfill.core.gates.gate import Waiting
from airflow_backfill.triggers.build import BuildTrigger
from airflow_backfill.watching.epochs import reached_epoch


class EpochTrigger(BuildTrigger):
    """
    Fires when the target has reached an epoch of its source, or never will: then the task raises the error.

    :param epoch: the epoch.
    :param reached: "applied", or "seen".
    """

    arguments = (*BuildTrigger.arguments, "epoch", "reached")

    def __init__(self, *, epoch: int, reached: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.epoch = epoch
        self.reached = reached

    def due(self) -> bool:
        return not isinstance(reached_epoch(self.watched, self.epoch, self.reached), Waiting)
