"""Waits for a committed hand-off."""

from __future__ import annotations

from airflow_backfill.core.gates.gate import Waiting
from airflow_backfill.triggers.build import BuildTrigger
from airflow_backfill.watching.epochs import first_epoch


class FinishTrigger(BuildTrigger):
    """Fires when the hand-off of the target's build is committed, or cannot be committed."""

    def due(self) -> bool:
        found = first_epoch(self.watched)
        return not isinstance(found, Waiting)
