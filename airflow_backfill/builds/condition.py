"""What a build does now, and whether somebody has to look at it."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_backfill.builds.history import History
from airflow_backfill.core.errors import BackfillError
from airflow_backfill.core.reports.attempt_status import AttemptStatus
from airflow_backfill.core.reports.health import Condition, Health, health
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.control import Command, Control
from airflow_backfill.ledger.delta_log import DeltaLog


def condition(
    log: DeltaLog,
    state: BuildState,
    control: Control,
    commands: Sequence[tuple[int, Command]],
    statuses: Sequence[AttemptStatus],
    trouble: BackfillError | None,
    now: int,
) -> Health:
    """``health``, for who has not read the last barriers: they are read only if it depends on them whether the build is
    stuck.
    """
    found = health(state, control, commands, statuses, trouble, now)
    if found.condition is not Condition.STUCK:
        return found
    return health(state, control, commands, statuses, trouble, now, History.read(log, state).longest_ms)
