"""How far a build is: one figure that never falls and never passes 100 %, and what is left at the recent speed.

Each stage has a fixed share of the whole: the snapshot 80 %, the log up to the gate 10 %, the catch-up to the hand-off
epoch 5 %, the proof 4 %, the hand-off the rest. Within a stage the share is measured in committed work: the bytes of
the pinned snapshot or the records of a topic, then epochs. The source's head moves, a cancelled build is planned again,
a finished one is recovered: what is measured may fall then. So each record keeps the highest progress so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from airflow_backfill.core.model.record import Record
from airflow_backfill.core.source.glance import Ahead
from airflow_backfill.core.state.state import Barrier, BuildState
from airflow_backfill.core.strategies.strategy import strategy_of
from airflow_backfill.core.values.phase import Event, Phase

WHOLE = 10_000
"""Progress is counted in hundredths of a percent."""
SNAPSHOT, LOG, CATCH_UP, PROOF = (0, 8_000), (8_000, 9_000), (9_000, 9_500), (9_500, 9_900)
"""Where each stage begins and ends."""
_ROUNDS = (Event.FILES, Event.CHUNKS, Event.OFFSETS, Event.EPOCHS)


def progress(state: BuildState) -> int:
    """The committed progress of the build, from 0 to ``WHOLE``: never less than at an earlier barrier."""
    kept = [known.record.progress for known in state.known if known.record.progress is not None]
    return max(kept) if kept else _measured(state, state.totals.snapshot_bytes)


def progress_with(state: BuildState, record: Record) -> int:
    """The progress that a build in ``state`` has once ``record`` is committed."""
    then = replace(state, positions=record.positions, newest=Barrier(state.proven, 0, record, 0))
    return max(progress(state), _measured(then, state.totals.snapshot_bytes + record.work.snapshot_bytes))


def percent(state: BuildState) -> float:
    """The progress of the whole build, in percent: rounded down, because 100 says that nothing is left."""
    return progress(state) * 1000 // WHOLE / 10


def phase_percent(state: BuildState) -> float:
    """The progress within the current phase, in percent, rounded down. The proof belongs to the catch-up."""
    start, end = {
        Phase.SNAPSHOT: SNAPSHOT,
        Phase.CONSUME_LOG: LOG,
        Phase.CATCH_UP: (CATCH_UP[0], PROOF[1]),
        Phase.CANCELLED: (0, WHOLE),
    }.get(state.phase, (0, 0))
    return 100.0 if end == start else min(max((progress(state) - start) * 1000 // (end - start), 0), 1000) / 10


def _measured(state: BuildState, read_bytes: int) -> int:
    """The progress by what is committed now."""
    match state.phase:
        case Phase.FINISHED | Phase.UPSTREAM:
            return WHOLE
        case Phase.CATCH_UP if state.certificate is not None:
            return PROOF[1]
        case Phase.CATCH_UP if state.at_handoff:
            return CATCH_UP[1]
        case Phase.CATCH_UP:
            return _within(CATCH_UP, *_epochs(state, state.handoff))
        case Phase.CONSUME_LOG:
            pending = state.newest.record.pending if state.newest is not None else None
            return _within(LOG, *_epochs(state, None if pending is None else pending.head))
        case Phase.SNAPSHOT if state.read:
            return SNAPSHOT[1]
        case Phase.SNAPSHOT:
            return min(_within(SNAPSHOT, *_read(state, read_bytes)), SNAPSHOT[1] - 1)
        case Phase.CANCELLED:
            return 0


def _read(state: BuildState, read_bytes: int) -> tuple[float, float]:
    """How much of the snapshot is read, and how much there is."""
    strategy, splits = strategy_of(state.plan), state.plan.splits
    if splits.bytes and strategy.partitions(state) is None:
        return read_bytes, splits.bytes
    read = strategy.progress(state)
    return read.done, read.of


def _epochs(state: BuildState, end: int | None) -> tuple[float, float]:
    """How many epochs after the planned one are applied, and how many there are up to ``end``."""
    planned, part = state.plan.source.epoch, state.part
    applied = state.reached - planned + (0 if part is None else part.done / part.of)
    return applied, max((state.reached if end is None else end) - planned, applied)


def _within(stage: tuple[int, int], done: float, of: float) -> int:
    start, end = stage
    return start + int((end - start) * (min(done / of, 1.0) if of else 1.0))


@dataclass(frozen=True, slots=True)
class Sample:
    """A build at one of its barriers. ``at`` in milliseconds since 1970; rows and bytes so far; ``left``: how much of
    the phase was left, in records of a topic or in pending rows, None if unknown.
    """

    phase: Phase
    at: int
    rows: int
    bytes: int
    left: int | None

    @staticmethod
    def of(state: BuildState) -> Sample | None:
        """The sample at the newest barrier; None before the first."""
        if state.newest is None:
            return None
        totals = state.totals
        rows = totals.snapshot_rows + totals.log_rows + totals.upstream_rows
        return Sample(state.phase, state.newest.at, rows, totals.snapshot_bytes, _left(state, state.newest.record))


@dataclass(frozen=True, slots=True)
class Speed:
    """Per second, waiting times included. ``nearing``: by how much less is left; None if that is unknown."""

    rows: float
    bytes: float
    nearing: float | None

    @staticmethod
    def between(old: Sample, new: Sample) -> Speed | None:
        """The speed between two samples; None if no time lies between them, or a change of the phase, or a rewind."""
        seconds = (new.at - old.at) / 1000
        if seconds <= 0 or old.phase is not new.phase or new.rows < old.rows:
            return None
        nearing = None if old.left is None or new.left is None else (old.left - new.left) / seconds
        return Speed((new.rows - old.rows) / seconds, (new.bytes - old.bytes) / seconds, nearing)

    @staticmethod
    def of_barriers(state: BuildState, barriers: Sequence[Barrier]) -> Speed | None:
        """The speed over the rounds among ``barriers``, newest first, all of the current phase; None for less than two.
        The oldest round only marks the start of the others.
        """
        rounds = [barrier for barrier in barriers if barrier.record.event in _ROUNDS]
        if len(rounds) < 2:
            return None
        rows = sum(barrier.rows for barrier in rounds[:-1])
        read = sum(barrier.record.work.snapshot_bytes for barrier in rounds[:-1])
        new, old = rounds[0], rounds[-1]
        return Speed.between(
            Sample(state.phase, old.at, 0, 0, _left(state, old.record)),
            Sample(state.phase, new.at, rows, read, _left(state, new.record)),
        )


def _left(state: BuildState, record: Record) -> int | None:
    """How much of its phase was left at a record, in a unit of which the source makes more."""
    if record.phase is Phase.SNAPSHOT:
        partitions = strategy_of(state.plan).partitions(replace(state, positions=record.positions))
        return None if partitions is None else sum(split.left for split in partitions.values())
    return None if record.pending is None else record.pending.rows


def seconds_left(state: BuildState, source: Ahead | None, speed: Speed | None) -> int | None:
    """Seconds until the current phase ends at this speed; None if that is unknown, or never at this speed.

    A moving head counts: for a topic's history, and for the log before the gate, only what is left less each second
    brings the end nearer. After the gate the hand-off epoch is fixed, and a follower never ends.
    """
    if speed is None:
        return None
    if state.phase is Phase.SNAPSHOT and not state.read and speed.nearing is None:
        left = max(state.plan.splits.bytes - state.totals.snapshot_bytes, 0)
        return round(left / speed.bytes) if speed.bytes > 0 else None
    if state.phase is Phase.SNAPSHOT:
        left_now = _left(state, state.newest.record) if state.newest is not None else None
        return _until(left_now, speed.nearing)
    if source is None or state.phase not in (Phase.CONSUME_LOG, Phase.CATCH_UP):
        return None
    ahead = source if state.handoff is None else source.upto(max(min(state.handoff, source.head), source.after))
    rows = ahead.rows(state.reached)
    if rows is None and state.newest is not None:
        rows = _left(state, state.newest.record)
    return _until(rows, speed.nearing if state.handoff is None else speed.rows)


def _until(left: int | None, speed: float | None) -> int | None:
    if not left:
        return left
    return round(left / speed) if speed is not None and speed > 0 else None
