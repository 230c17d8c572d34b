"""The next round of key ranges: what changed behind the positions, and the next rows, in one commit (seed 004).

Every round is at the newest epoch whose changes fit it, and takes all ranges there; nothing is pinned. Ranges are read
one after another, as many rows as fit the round. However much changes meanwhile, a round reads at least one chunk,
unless people hold that back, by a pause or a throttle: then the changes go on alone, and count for no rate.
"""

from __future__ import annotations

from dataclasses import replace

from airflow_backfill.core.model.position import AtKey, Consumed, Position
from airflow_backfill.core.source.view import SourceView, fitting
from airflow_backfill.core.state.effect import Chunks, Nothing, ReadRanges
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.state.step import Move, Observed
from airflow_backfill.core.values.epoch import EpochRange
from airflow_backfill.core.values.phase import Event
from airflow_backfill.core.values.round_size import RoundSize
from airflow_backfill.core.values.totals import Totals

NONE = Chunks({}, 0, 0, 0)


def target_epoch(state: BuildState, source: SourceView, size: RoundSize) -> int:
    """The epoch that the next round takes the ranges to: the newest one, or the last of those whose changes fit the
    round; one always does. None of them stops the build.
    """
    pending = source.pending(state.reached)
    if not pending:
        return source.head
    if state.begun:
        return fitting(pending, size)[-1].number
    # Nothing of it has to be read: what is not read yet will be read as it is then.
    return source.head


def next_ranges(state: BuildState, seen: Observed, epoch: int, chunks: Chunks) -> Move | None:
    """The round that takes all ranges to ``epoch`` and reads ``chunks``; None if there is nothing to it."""
    after = tuple(_moved(position, epoch, split, chunks) for split, position in enumerate(state.positions))
    if after == state.positions:
        return None
    changes = EpochRange(state.reached + 1, epoch + 1) if state.begun and epoch > state.reached else None
    quiet = all(e.quiet for e in seen.source.pending(state.reached)[: epoch - state.reached])
    nothing = not chunks.ends and (changes is None or quiet)
    return Move(
        Event.CHUNKS,
        work=Nothing() if nothing else ReadRanges(epoch, None if quiet else changes, state.positions, after),
        positions=after,
        does=Totals(
            snapshot_files=chunks.files,
            snapshot_bytes=chunks.bytes,
            snapshot_rows=chunks.rows,
            log_epochs=len(changes) if changes is not None else 0,
        ),
        rows=chunks.rows,
        bytes=chunks.bytes,
        epochs=changes,
    )


def _moved(position: Position, epoch: int, split: int, chunks: Chunks) -> Position:
    if isinstance(position, Consumed):
        return Consumed(epoch)
    assert isinstance(position, AtKey)
    if split not in chunks.ends:
        return replace(position, epoch=epoch)
    end = chunks.ends[split]
    return Consumed(epoch) if end is None else AtKey(epoch, position.chunks + 1, end)
