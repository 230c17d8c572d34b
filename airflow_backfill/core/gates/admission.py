"""Back-pressure: whether a writer of the source should wait. Writers are free to ignore it.

A streaming executor stops reading from upstream; writers of a table can only be asked. They are asked while the build
consumes the log and more than ``max_lag`` is pending, and at no other time: the snapshot does not need it, the epochs
up to the hand-off are already committed, and a build that is paused, held or stopped by a pending epoch does not go on.
No step of a build waits for a commit of the source, so this cannot deadlock.
"""

from __future__ import annotations

from collections.abc import Sequence

from airflow_backfill.core.gates.gate import Waiting
from airflow_backfill.core.gates.max_lag import MaxLag
from airflow_backfill.core.source.glance import Ahead
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.control import Command, obey
from airflow_backfill.core.values.phase import Phase


def admit(
    state: BuildState, source: Ahead, commands: Sequence[tuple[int, Command]], max_lag: MaxLag, now: int
) -> Waiting | None:
    """Why a writer should wait; None if it may commit."""
    control = obey(state.control, commands).at(now)
    applied = state.applied
    if state.phase is not Phase.CONSUME_LOG or applied is None or control.stopped or control.held or control.cancelled:
        return None
    if source.stopping(applied) is not None or max_lag.holds(source, applied, now):
        return None
    return Waiting((f"{source.count(applied)} epochs are pending after epoch {applied}",), lag=True)
