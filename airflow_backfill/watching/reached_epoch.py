"""Whether a target shows an epoch of its source: for the sensor, and for its trigger."""

from __future__ import annotations

from airflow_backfill.core.errors import Cancelled
from airflow_backfill.core.gates.gate import Waiting
from airflow_backfill.core.values.phase import Phase
from airflow_backfill.hooks.ledger import LedgerHook
from airflow_backfill.watching.committed import committed

REACHED = ("applied", "seen")


def reached_epoch(hook: LedgerHook, target: str, build: str | None, epoch: int, reached: str) -> int | Waiting:
    """The epoch at which the target stands, once that is ``epoch`` or later; else what is still missing."""
    state = committed(hook, target, build)
    if isinstance(state, Waiting):
        return state
    found = state.applied if reached == "applied" else state.seen
    if found is not None and found >= epoch:
        return found
    if state.phase is Phase.CANCELLED:
        raise Cancelled("the build was cancelled; plan it again to resume it")
    return Waiting((f"{reached} is epoch {found}, epoch {epoch} is awaited",), lag=False)
