"""The committed state of a target, for sensors and their triggers."""

from __future__ import annotations

from airflow_backfill.core.errors import NotPlanned, SourceNotDelta
from airflow_backfill.core.gates.gate import Waiting
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.hooks.ledger import LedgerHook


def committed(hook: LedgerHook, target: str, build: str | None) -> BuildState | Waiting:
    """The state of the target's build, or Waiting if it is not planned yet."""
    try:
        return hook.reader(target).state(build)
    except (NotPlanned, SourceNotDelta) as missing:
        return Waiting((missing.message,), lag=False)


WAITING = "waiting"
"""The key in ``task_state_store`` of the reasons why a task waits."""
