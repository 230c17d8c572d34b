"""The snapshot phase."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_backfill.core.attempts.goals import SnapshotGoal
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.operators.rounds import RoundsOperator


class SnapshotOperator(RoundsOperator):
    """
    Reads the pinned version of the source into the target, file by file.

    :param lane: which part of the splits this task reads; map over ``range(lanes)`` to read them side by side.
        (templated)
    :param lanes: into how many parts the splits are dealt.
    """

    entry_point = "snapshot"
    template_fields: Sequence[str] = (*RoundsOperator.template_fields, "lane")

    def __init__(self, *, lane: int = 0, lanes: int = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.lane = lane
        self.lanes = lanes

    def task(self) -> SnapshotGoal:
        return SnapshotGoal(int(self.lane), self.lanes, self.size)

    def settings(self) -> list[str]:
        return ["--lane", str(self.lane), "--lanes", str(self.lanes), *super().settings()]

    def result(self, state: BuildState) -> dict[str, Any]:
        return {"target": self.target, "build": state.plan.build, "epoch": state.plan.source.epoch}
