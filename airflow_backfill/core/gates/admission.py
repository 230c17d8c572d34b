"""Whether a writer of the source is asked to wait: the back-pressure that a build may ask for, and nobody has to heed.

A streaming executor ends because it stops taking from upstream; writers of a table can only be asked. They are asked
while the log is consumed and too much of it is pending, and at no other time: the snapshot has no use for it, what is
pinned for the hand-off is committed already, a build that is paused or on hold takes its own time, and one that cannot
get past a pending epoch does not go on. No step of a build waits for a commit of the source, so a closed gate never
holds up what would open it.
"""

from __future__ import annotations

from collections.abc import Sequence

from airflow_backfill.core.gates.gate import Waiting
from airflow_backfill.core.gates.max_lag import MaxLag
from airflow_backfill.core.source.view import SourceView
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.control import Command, obey
from airflow_backfill.core.values.phase import Phase


def admit(
    state: BuildState, source: SourceView, commands: Sequence[tuple[int, Command]], max_lag: MaxLag, now: int
) -> Waiting | None:
    """Why a writer is to wait; None if it may commit."""
    control = obey(state.control, commands)
    applied = state.applied
    if state.phase is not Phase.CONSUME_LOG or applied is None or control.stopped or control.held or control.cancelled:
        return None
    pending = source.pending(applied)
    if pending.stopping is not None or max_lag.holds(pending, now):
        return None
    return Waiting((f"{len(pending)} epochs are pending after epoch {applied}",), lag=True)
