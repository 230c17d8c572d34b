"""The first epoch of a consumer that follows the source, for the sensor and its trigger."""

from __future__ import annotations

from airflow_backfill.core.errors import Cancelled
from airflow_backfill.core.gates.gate import Waiting
from airflow_backfill.core.values.phase import Phase
from airflow_backfill.watching.committed import committed
from airflow_backfill.watching.watched_build import WatchedBuild


def first_epoch(build: WatchedBuild) -> int | Waiting:
    """The epoch after the committed hand-off of the build, or Waiting. Cancelled for a cancelled build."""
    state = committed(build)
    if isinstance(state, Waiting):
        return state
    if state.phase is Phase.CANCELLED:
        raise Cancelled("the build was cancelled; run the plan task again to resume it")
    if state.phase not in (Phase.FINISHED, Phase.UPSTREAM) or state.handoff is None:
        return Waiting((f"the build is in phase {state.phase.value}",), lag=False)
    return state.handoff + 1
