"""The recent speed of a build, from its last barriers and their commit times."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from airflow_backfill.core.errors import HistoryLost
from airflow_backfill.core.model.record import barrier_record
from airflow_backfill.core.source.view import SourceView
from airflow_backfill.core.state.state import Barrier, BuildState
from airflow_backfill.core.values.phase import Event, Phase
from airflow_backfill.ledger.delta_log import DeltaLog

RECENT_COMMITS = 20
"""Commits of the target from which the speed is measured."""


@dataclass(frozen=True, slots=True)
class Speed:
    """Per second, including waiting times."""

    rows: float
    bytes: float


def recent_speed(log: DeltaLog, state: BuildState) -> Speed | None:
    """The speed over the last rounds of the current phase; None for less than two rounds."""
    rounds = [b for b in _barriers(log, state) if b.record.event in (Event.FILES, Event.CHUNKS, Event.EPOCHS)]
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


def _barriers(log: DeltaLog, state: BuildState) -> list[Barrier]:
    """The last barriers of the current phase that are in the log, newest first."""
    found: list[Barrier] = []
    try:
        for commit in islice(log.newest_first(), RECENT_COMMITS):
            record = barrier_record(commit)
            if record is None:
                continue
            if record.build != state.plan.build or record.phase is not state.phase:
                break
            found.append(Barrier.of(commit, record))
    except HistoryLost:
        pass  # the log ends here
    return found
