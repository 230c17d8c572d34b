"""Waits before a write to the source of a build."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_backfill.core.gates.max_lag import MaxLag
from airflow_backfill.triggers.build import BuildTrigger
from airflow_backfill.watching.pressure import pressure


class AdmissionTrigger(BuildTrigger):
    """
    Fires when a writer of the source may commit.

    :param max_lag: how much of the log may be pending: epochs, or milliseconds; the other is None.
    """

    arguments = (*BuildTrigger.arguments, "max_lag")

    def __init__(self, *, max_lag: Sequence[int | None], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.max_lag = list(max_lag)

    def due(self) -> bool:
        return pressure(self.watched, MaxLag(*self.max_lag)) is None
