"""The snapshot phase."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_backfill.core.attempts.goals import SnapshotGoal
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.options import invalid
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
        self.lanes = lanes

    def task(self) -> SnapshotGoal:
        try:
            return SnapshotGoal(int(self.lane), self.lanes, self.size)
        except (TypeError, ValueError):
            raise invalid("lane", self.lane, "must be a whole number; lanes are counted from 0") from None

    def settings(self) -> list[str]:
        return ["--lane", str(self.lane), "--lanes", str(self.lanes), *super().settings()]

    def result(self, state: BuildState) -> dict[str, Any]:
        return {"target": self.target, "build": state.plan.build, "epoch": state.plan.source.epoch}
