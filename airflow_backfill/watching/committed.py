"""A target's committed state, for sensors that wait for it, and for their triggers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_backfill.core.errors import NotPlanned, SourceNotDelta
from airflow_backfill.core.gates.gate import Waiting
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.hooks.ledger import LedgerHook

if TYPE_CHECKING:
    pass


def committed(hook: LedgerHook, target: str, build: str | None) -> BuildState | Waiting:
    """The state of the target's build; there may be none yet, or another one."""
    try:
        return hook.reader(target).state(build)
    except (NotPlanned, SourceNotDelta) as missing:
        return Waiting((missing.message,), lag=False)


WAITING = "waiting"
"""The key in ``task_state_store`` of what a sensor waits for."""
