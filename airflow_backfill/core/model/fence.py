"""A fence: an empty commit that takes a lane's next transaction number, so that no running attempt can commit there.

A recovery begins a new layout and fences the lanes of the old one: commits that are under way there then fail.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_backfill.core.model.record import app_id
from airflow_backfill.core.values.document import encode


@dataclass(frozen=True, slots=True)
class Fence:
    build: str
    layout: int
    lane: int
    seq: int
    attempt: str

    @property
    def app_id(self) -> str:
        return app_id(self.build, self.layout, self.lane)

    def encode(self) -> str:
        return encode({"airflow_backfill_fence": 1, "attempt": self.attempt})
