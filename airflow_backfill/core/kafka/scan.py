"""The scan form: ranges of offsets, of which not every one holds a record (docs/behaviours/source.md).

In a round the landing table goes first, then Kafka is read up to the target that this left. A range without a record is
progress, too: it must be committed, or it is read for ever. What stops a backfill is that its target is covered, not
that a record reaches it, which a transaction marker or a compacted record never does.
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
    """What to read of Kafka next, at most ``quota`` offsets; None if nothing.

    Begins after the last offset that was covered, and never goes beyond the broker's end or the target, so that there
    is nothing to drop; nor from what the landing table has kept into what Kafka has. Only splits that are backfilling
    are read.
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
    """The split after a finished read of ``covered`` that returned ``rows``, and the range of the visible ones.

    OffsetsInvalid if the read does not go on where the last one ended, goes beyond the target, or if a record lies
    outside of it.
    """
    beyond = isinstance(split.state, Backfilling) and split.target is not None and covered.last > split.target
    outside = rows is not None and not (rows.least in covered and rows.greatest in covered)
    if covered.start != split.scanned + 1 or beyond or outside:
        raise OffsetsInvalid(
            f"[{covered.start}, {covered.stop}) of partition {split.partition} with {rows} was read after "
            f"{split.scanned}, target {split.target}",
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
    """The split after what follows without a further row; true of every committed one.

    A backfill whose target is covered stops, after the last record written or the greatest one that it owed to the
    landing table. That offset is known as a record, which the landing table can reach, unlike a marker behind it. A
    backfill that has stopped is finished once the landing table has reached it.
    """
    if isinstance(split.state, Backfilling) and split.target is not None and split.scanned >= split.target:
        known = [offset for offset in (split.state.offset, split.credit) if offset is not None]
        split = split.stopped(max(known)) if known else split.finished()
    if isinstance(split.state, CatchingUp) and split.landed is not None and split.landed >= split.state.offset:
        split = split.finished()
    return split


def landed_through(split: Split, offset: int) -> Split:
    """The split once the landing table holds what it will ever hold up to ``offset``, be there a row or not.

    For a landing table that filters rows: what its ingestion has committed at the applied version.
    """
    return settled(replace(split, landed=offset if split.landed is None else max(split.landed, offset)))


def settled_alone(split: Split) -> Split:
    """The split if there is no landing table: a backfill that has stopped is finished, and a stream goes on after it.

    The target is then the pinned end - 1, and the stream starts at the end itself, hole or not.
    """
    return split.finished() if isinstance(split.state, CatchingUp) else split
