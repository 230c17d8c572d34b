"""The snapshot phase."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_backfill.core.attempts.goals import SnapshotGoal
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.options import invalid, whole
from airflow_backfill.operators.phase import MAX_LANES
from airflow_backfill.operators.rounds import RoundsOperator


class SnapshotOperator(RoundsOperator):
    """
    Reads the snapshot of the source into the target.

    :param lane: the lane that this task reads; map over ``range(lanes)`` to read them in parallel. (templated)
    :param lanes: number of lanes.
    """

    entry_point = "snapshot"
    template_fields: Sequence[str] = (*RoundsOperator.template_fields, "lane")

    def __init__(self, *, lane: int = 0, lanes: int = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.lane = lane
        self.lanes = whole("lanes", lanes, 1, MAX_LANES)

    def task(self) -> SnapshotGoal:
        return SnapshotGoal(self._number, self.lanes, self.size)

    @property
    def _number(self) -> int:
        """The lane, which a template may give as text."""
        if not str(self.lane).isdecimal():
            raise invalid("lane", self.lane, "must be a whole number; lanes are counted from 0")
        return int(self.lane)

    def check(self, state: BuildState) -> None:
        if self._number >= self.lanes:
            raise invalid("lane", self.lane, f"lanes are counted from 0, and there are {self.lanes}")
        super().check(state)

    def settings(self) -> list[str]:
        return ["--lane", str(self._number), "--lanes", str(self.lanes), *super().settings()]

    def result(self, state: BuildState) -> dict[str, Any]:
        return {"target": self.target, "build": state.plan.build, "epoch": state.plan.source.epoch}
