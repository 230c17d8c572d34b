"""The recent speed of a build, from its last barriers and their commit times."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_backfill.builds.history import History
from airflow_backfill.core.source.view import SourceView
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.phase import Event, Phase


@dataclass(frozen=True, slots=True)
class Speed:
    """Per second, including waiting times."""

    rows: float
    bytes: float


def recent_speed(history: History) -> Speed | None:
    """The speed over the last rounds of the current phase; None for less than two rounds."""
    events = (Event.FILES, Event.CHUNKS, Event.OFFSETS, Event.EPOCHS)
    rounds = [barrier for barrier in history.of_this_phase if barrier.record.event in events]
    seconds = (rounds[0].at - rounds[-1].at) / 1000 if rounds else 0
    if seconds <= 0:
        return None
    # The oldest round only marks the start of the others.
    rows = sum(barrier.rows for barrier in rounds[:-1])
    return Speed(rows / seconds, sum(barrier.record.work.snapshot_bytes for barrier in rounds[:-1]) / seconds)


def seconds_left(state: BuildState, source: SourceView | None, speed: Speed | None) -> int | None:
    """Seconds until the current phase ends at this speed; None if unknown."""
    if speed is None:
        return None
    if state.phase is Phase.SNAPSHOT and not state.sealed:
        left = max(state.plan.splits.bytes - state.totals.snapshot_bytes, 0)
        return round(left / speed.bytes) if speed.bytes else None
    if source is None or not speed.rows:
        return None
    upto = state.handoff if state.phase is Phase.CATCH_UP else None
    pending = source.pending(state.reached)
    pending = pending if upto is None else pending[: max(upto - state.reached, 0)]
    return round(pending.rows / speed.rows)
