"""Whether a target has reached an epoch of its source, for the sensor and its trigger."""

from __future__ import annotations

from airflow_backfill.core.errors import Cancelled
from airflow_backfill.core.gates.gate import Waiting
from airflow_backfill.core.values.phase import Phase
from airflow_backfill.watching.committed import committed
from airflow_backfill.watching.watched_build import WatchedBuild

REACHED = ("applied", "seen")


def reached_epoch(build: WatchedBuild, epoch: int, reached: str) -> int | Waiting:
    """The epoch that the target has reached, once it is ``epoch`` or later; else Waiting."""
    state = committed(build)
    if isinstance(state, Waiting):
        return state
    found = state.applied if reached == "applied" else state.seen
    if found is not None and found >= epoch:
        return found
    if state.phase is Phase.CANCELLED:
        raise Cancelled("the build was cancelled; run the plan task again to resume it")
    return Waiting((f"epoch {epoch} is not {reached} yet (last: {found})",), lag=False)
