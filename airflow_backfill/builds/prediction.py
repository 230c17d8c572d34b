"""What the plan predicted of a build, and what happened."""

from __future__ import annotations

from typing import Any

from airflow_backfill.builds.history import History
from airflow_backfill.core.reports.prediction import compared
from airflow_backfill.ledger.reader import BuildReader

COMMITS = 500
"""Commits of the target that are read. Of a build with more, nothing is compared."""


def prediction(target: str | BuildReader) -> dict[str, Any] | None:
    """The plan's prediction against the times of the target's commits, as ``compared`` tells it; None if the plan has
    left no prediction, or if the build has too many commits. NotPlanned.
    """
    reader = BuildReader.of(target)
    state = reader.state()
    report = reader.control.report(state.plan.build)
    if report is None or "rehearsal" not in report:
        return None
    history = History.read(reader.log, state, COMMITS)
    return compared(report["rehearsal"], history.barriers[::-1]) if history.whole else None
