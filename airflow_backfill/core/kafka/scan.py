"""What a read of a range of offsets does to a split, although some offsets have no record (docs/behaviours/source.md).

In a round, the landing table is read first, then Kafka up to the resulting target. A range without records is progress,
too: it must be committed, or every attempt reads it again. A backfill stops when its target is covered, not when a
record reaches it: the offset of a transaction marker or a compacted record has no record.
"""

from __future__ import annotations

from dataclasses import replace

from airflow_backfill.core.errors import OffsetsInvalid
from airflow_backfill.core.kafka.batches import Stop, backfilled_batch, upstream_batch
from airflow_backfill.core.kafka.offsets import Batch, Offsets
from airflow_backfill.core.kafka.split import Split
from airflow_backfill.core.kafka.state import Backfilling, CatchingUp
from airflow_backfill.core.values.epoch import EpochRange


def after_upstream(split: Split, rows: Batch, versions: EpochRange) -> tuple[Split, Offsets | None]:
    """The split after rows of the landing table, and the range of the visible ones; errors of ``upstream_batch``."""
    after, visible = upstream_batch(split, rows, versions)
    return settled(after), visible


def next_range(split: Split, quota: int) -> Offsets | None:
    """The next offsets to read, at most ``quota``; None for none.

    Begins after the last covered offset. Ends at the broker's end or the target, so that no record has to be dropped,
    and does not cross the floor, where the landing table ends and Kafka begins. Only backfilling splits are read.
    """
    if not isinstance(split.state, Backfilling):
        return None
    start = split.scanned + 1
    stop = min(start + quota, split.end)
    if split.target is not None:
        stop = min(stop, split.target + 1)
    if start < split.floor:
        stop = min(stop, split.floor)
    return Offsets(start, stop) if start < stop else None


def after_read(split: Split, covered: Offsets, rows: Batch | None) -> tuple[Split, Offsets | None]:
    """The split after a finished read of ``covered`` that returned ``rows``, and the range of visible offsets.

    OffsetsInvalid if the read does not continue where the last one ended, goes beyond the target, or returned a record
    outside ``covered``.
    """
    beyond = isinstance(split.state, Backfilling) and split.target is not None and covered.last > split.target
    outside = rows is not None and not (rows.least in covered and rows.greatest in covered)
    if covered.start != split.scanned + 1 or beyond or outside:
        raise OffsetsInvalid(
            f"partition {split.partition}: a read of [{covered.start}, {covered.stop}) returned {rows}, but the last "
            f"covered offset is {split.scanned} and the target {split.target}",
            partition=split.partition,
            offset=covered.start,
            after=split.scanned,
        )
    visible = None
    if rows is not None:
        stop = Stop(rows.greatest, rows.count) if rows.greatest == split.target else None
        split, visible = backfilled_batch(split, rows, stop)
    return settled(replace(split, scanned=covered.last)), visible


def settled(split: Split) -> Split:
    """The split after all transitions that need no further row. Every committed split is settled.

    A backfill whose target is covered stops after the last record that it wrote or dropped from the landing table
    (``credit``). A record is at that offset, so the landing table can reach it, unlike a marker after it. A stopped
    backfill is finished once the landing table has reached that offset.
    """
    if isinstance(split.state, Backfilling) and split.target is not None and split.scanned >= split.target:
        known = [offset for offset in (split.state.offset, split.credit) if offset is not None]
        split = split.stopped(max(known)) if known else split.finished()
    if isinstance(split.state, CatchingUp) and split.landed is not None and split.landed >= split.state.offset:
        split = split.finished()
    return split


def landed_through(split: Split, offset: int) -> Split:
    """The split once the landing table is complete up to ``offset``, with or without a row there.

    For an ingestion that filters rows: ``offset`` is what its checkpoint has committed at the applied version.
    """
    return settled(replace(split, landed=offset if split.landed is None else max(split.landed, offset)))


def settled_alone(split: Split) -> Split:
    """The split without a landing table: a stopped backfill is finished, and a stream follows.

    The target is the pinned end - 1, and the stream starts at the end, whether a record is there or not.
    """
    return split.finished() if isinstance(split.state, CatchingUp) else split
