"""The next round of a snapshot: which files of the pinned epoch a lane appends.

Files are taken in the plan's order, split by split, and never twice: positions only grow. A file is the
smallest unit, so a round has at least one, and may exceed its size by less than one file.
"""

from __future__ import annotations

from collections.abc import Sequence

from airflow_backfill.core.splits.files import AtFile, FileSplits
from airflow_backfill.core.splits.position import Consumed, Position
from airflow_backfill.core.state.effect import AppendFiles, Asks, FileSize, Nothing
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.state.step import Held, Move, Observed, Read, Wait
from airflow_backfill.core.strategies.strategy import Progress
from airflow_backfill.core.strategies.table import TableStrategy
from airflow_backfill.core.values.commit import ROW_BYTES
from airflow_backfill.core.values.phase import Event
from airflow_backfill.core.values.round_size import RoundSize
from airflow_backfill.core.values.totals import Totals


class Snapshot(TableStrategy):
    """Reads each file of one pinned version once, then the log (docs/behaviours/snapshot.md, persisted_progress.md)."""

    name = "snapshot"
    adds_up = True
    why = "the source has a key and a change data feed, and keeps the pinned epoch's files"
    on_spark = "airflow_backfill.spark.strategies.snapshot"

    def read(
        self, state: BuildState, lane: int, observed: Observed, step: Read, held: Held | None, *, begins: bool
    ) -> Asks[Move | Wait]:
        yield from ()
        move = next_files(state, lane, observed.files, observed.fit(step.size))
        assert move is not None, "nothing is left to read"
        return move if held is None else held.wait

    def progress(self, state: BuildState) -> Progress:
        splits = state.plan.splits
        assert isinstance(splits, FileSplits)
        each = zip(state.positions, map(splits.size, range(len(splits))), strict=True)
        done = sum(position.files if isinstance(position, AtFile) else size for position, size in each)
        return Progress("files", done, splits.files)


def next_files(state: BuildState, lane: int, files: Sequence[FileSize], size: RoundSize) -> Move | None:
    """The lane's next round; None if all its splits are Consumed."""
    splits, epoch = state.plan.splits, state.plan.source.epoch
    assert isinstance(splits, FileSplits)
    positions: list[Position] = list(state.positions)
    runs: list[tuple[int, int]] = []
    taken_bytes = taken_rows = 0
    for split, position in enumerate(state.positions):
        if not state.owns(lane, split) or not isinstance(position, AtFile):
            continue
        if taken_bytes >= size.bytes or taken_rows >= size.rows:
            break
        first, end = splits.borders[split] + position.files, splits.borders[split + 1]
        stop = first
        while stop < end and taken_bytes < size.bytes and taken_rows < size.rows:
            taken_bytes += files[stop].bytes
            taken_rows += _rows(files[stop])
            stop += 1
        if stop > first:
            runs.append((first, stop))
        positions[split] = Consumed(epoch) if stop == end else AtFile(position.files + stop - first)
    if tuple(positions) == state.positions:
        return None
    return Move(
        Event.FILES,
        work=AppendFiles(tuple(runs)) if runs else Nothing(),
        positions=tuple(positions),
        does=Totals(snapshot_files=sum(b - a for a, b in runs), snapshot_bytes=taken_bytes),
        rows=taken_rows,
        bytes=taken_bytes,
    )


def _rows(file: FileSize) -> int:
    """The rows of a file; estimated if the log has no count, since 0 would bypass the throttle."""
    return file.rows if file.rows is not None else 1 + file.bytes // ROW_BYTES
