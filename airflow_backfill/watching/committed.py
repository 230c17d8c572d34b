"""The committed state of a target, for sensors and their triggers."""

from __future__ import annotations

from airflow_backfill.core.errors import NotPlanned
from airflow_backfill.core.gates.gate import Waiting
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.watching.watched_build import WatchedBuild


def committed(build: WatchedBuild) -> BuildState | Waiting:
    """The state of a build, or Waiting if it is not planned yet."""
    try:
        return build.state()
    except NotPlanned as missing:
        return Waiting((missing.message,), lag=False)


WAITING = "waiting"
"""The key in ``task_state_store`` of the reasons why a task waits."""
