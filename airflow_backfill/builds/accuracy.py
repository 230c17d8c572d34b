"""What the plan predicted of a build, and what happened."""

from __future__ import annotations

from typing import Any

from airflow_backfill.builds.history import barriers_in
from airflow_backfill.core.errors import BackfillError
from airflow_backfill.core.reports.accuracy import compared, is_rehearsal
from airflow_backfill.core.state.state import Barrier
from airflow_backfill.core.values.phase import Phase
from airflow_backfill.ledger.delta_log import DeltaLog
from airflow_backfill.ledger.reader import BuildReader

EARLY, LATE = 20, 40
"""Commits after the plan, and from the seal on, among which the first claim and the end of the log are looked for."""
BACK = 20
"""Commits without a barrier that are passed over. A chain announces epochs in between."""


def accuracy(target: str | BuildReader) -> dict[str, Any] | None:
    """The plan's prediction against the times of the target's commits, as ``compared`` tells it; None if the plan has
    left no prediction, or if something cannot be read: nothing depends on it. The number of commits that are read grows
    with the logarithm of the build's.
    """
    try:
        return _accuracy(BuildReader.of(target))
    except BackfillError:
        return None


def _accuracy(reader: BuildReader) -> dict[str, Any] | None:
    state = reader.state()
    report = reader.control.report(state.plan.build)
    if report is None or not is_rehearsal(report.get("rehearsal")):
        return None
    build, first = state.plan.build, state.plan.target_version
    newest = first if state.newest is None else state.newest.version
    found = barriers_in(reader.log, build, range(first, min(first + EARLY, newest + 1)))
    if state.sealed:
        sealed = _first_after_snapshot(reader.log, build, first, newest)
        found += barriers_in(reader.log, build, range(sealed, min(sealed + LATE, newest + 1)))
    return compared(report["rehearsal"], found)


def _first_after_snapshot(log: DeltaLog, build: str, low: int, high: int) -> int:
    """The first version at which the build has left its snapshot, between two versions; found by halving."""
    while low < high:
        middle = (low + high) // 2
        barrier = _last_barrier(log, build, middle)
        if barrier is None or barrier.record.phase is Phase.SNAPSHOT:
            low = middle + 1
        else:
            high = middle
    return low


def _last_barrier(log: DeltaLog, build: str, version: int) -> Barrier | None:
    """The newest barrier up to a version; None if it is further back than ``BACK`` commits, or deleted."""
    looked = (barriers_in(log, build, [one]) for one in range(version, max(version - BACK, -1), -1))
    return next((found[0] for found in looked if found), None)
