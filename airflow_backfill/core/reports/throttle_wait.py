"""How long a throttle holds the next round back, as people are told."""

from __future__ import annotations

from airflow_backfill.core.state.state import BuildState


def throttle_wait(state: BuildState, now: int) -> int:
    """Milliseconds until the next round may begin in every lane. Never more than when the record of the last one was
    written: the clock of its driver may be ahead of the reader's.
    """
    records = [barrier.record for barrier in state.known]
    written = [now if record.pending is None else record.pending.at for record in records]
    return max([0, *(record.due - max(now, at) for record, at in zip(records, written, strict=True))])
