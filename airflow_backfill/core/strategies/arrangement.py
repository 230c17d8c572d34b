"""The next round of key ranges: changes of rows that are already read, and the next rows, in one commit.

No epoch is pinned. A round brings all ranges to the newest epoch whose changes fit into it, and then reads the ranges
one after another, as many rows as fit. It reads at least one chunk, however many changes there are. During a pause or a
throttle it only applies the changes, which count for no rate.
"""

from __future__ import annotations

from dataclasses import replace

from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.core.source.backlog import fitting
from airflow_backfill.core.source.view import SourceView
from airflow_backfill.core.splits.position import Consumed, Position
from airflow_backfill.core.splits.ranges import AtKey
from airflow_backfill.core.state.effect import Asks, Chunks, NextChunk, Nothing, ReadRanges
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.state.step import Held, Move, Observed, Read, Wait
from airflow_backfill.core.strategies.strategy import Progress, idle
from airflow_backfill.core.strategies.table import TableStrategy
from airflow_backfill.core.values.epoch import EpochRange
from airflow_backfill.core.values.phase import Event
from airflow_backfill.core.values.round_size import RoundSize
from airflow_backfill.core.values.totals import Totals

NONE = Chunks({}, 0, 0, 0)


class Arrangement(TableStrategy):
    """Reads key ranges at the newest version; each round also applies the changes of rows already read (S004)."""

    name = "arrangement"
    why = "the source has an ordered key and a change data feed, and need not keep any epoch's files"
    on_spark = "airflow_backfill.spark.strategies.arrangement"

    def one_lane(self, spec: BackfillSpec) -> str | None:
        return "a round of an arrangement covers all ranges"

    def read(
        self, state: BuildState, lane: int, observed: Observed, step: Read, held: Held | None, *, begins: bool
    ) -> Asks[Move | Wait]:
        # Changes of rows already read are never held back (S004.18): the source deletes them after a while.
        behind = state.begun and bool(observed.source.pending(state.reached))
        if held is not None and not behind:
            return held.wait
        epoch, size = target_epoch(state, observed.source, step.size), observed.fit(step.size)
        chunks = NONE if held is not None else (yield from NextChunk(epoch, state.positions, size.bytes, size.rows))
        return next_ranges(state, observed, epoch, chunks) or idle(observed)

    def progress(self, state: BuildState) -> Progress:
        done = sum(position.complete is not None or position.part is not None for position in state.positions)
        return Progress("ranges", done, len(state.plan.splits))


def target_epoch(state: BuildState, source: SourceView, size: RoundSize) -> int:
    """The epoch to which the next round brings the ranges: the last one whose changes fit the round (the first always
    does). Assumes that no pending epoch stops the build.
    """
    pending = source.pending(state.reached)
    if not pending:
        return source.head
    if state.begun:
        return fitting(pending, size)[-1].number
    # No row is read yet, so no change has to be applied.
    return source.head


def next_ranges(state: BuildState, observed: Observed, epoch: int, chunks: Chunks) -> Move | None:
    """The round that brings all ranges to ``epoch`` and reads ``chunks``; None if no position changes."""
    after = tuple(_moved(position, epoch, split, chunks) for split, position in enumerate(state.positions))
    if after == state.positions:
        return None
    changes = EpochRange(state.reached + 1, epoch + 1) if state.begun and epoch > state.reached else None
    quiet = all(e.quiet for e in observed.source.pending(state.reached)[: epoch - state.reached])
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
    if not isinstance(position, AtKey):
        return Consumed(epoch)
    if split not in chunks.ends:
        return replace(position, epoch=epoch)
    end = chunks.ends[split]
    return Consumed(epoch) if end is None else AtKey(epoch, position.chunks + 1, end)
