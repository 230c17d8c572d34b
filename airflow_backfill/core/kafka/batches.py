"""What many records of one partition, read together, do to its split. Only their aggregates (count, least and greatest
offset …) are needed.

The result is that of ``rows`` for the same records one by one, in the order of their offsets, whatever the batches are
(S001.12).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from airflow_backfill.core.errors import OffsetsInvalid
from airflow_backfill.core.kafka.offsets import Batch, Offsets
from airflow_backfill.core.kafka.split import Split
from airflow_backfill.core.kafka.state import Backfilling, CatchingUp, Finished
from airflow_backfill.core.values.epoch import EpochRange


@dataclass(frozen=True, slots=True)
class Stop:
    """The record at which a backfill stops: the first one of a batch at or after the target."""

    offset: int
    count: int
    """Records of the batch up to ``offset``, inclusive."""


def upstream_batch(split: Split, rows: Batch, versions: EpochRange) -> tuple[Split, Offsets | None]:
    """The split after all rows of the partition in ``versions`` of the landing table, and the range of visible offsets.

    The range is None if no row is visible. OffsetsInvalid, with the versions, if an offset is not greater than all
    before the batch, or if there are more rows than offsets. A repeated offset in a batch with holes is not detected.
    """
    named = [versions.start, versions.stop]
    split.check_landed(rows.least, versions=named)
    _check_once(split, rows, versions=named)
    after = replace(split, landed=rows.greatest)
    match split.state:
        case Backfilling(int(b)) if rows.least <= b:
            after = after.stopped(b)
        case Backfilling():
            return replace(after, target=rows.greatest, credit=rows.greatest), None
        case CatchingUp(b):
            pass
        case Finished():
            return after, Offsets(rows.least, rows.greatest + 1)
    if rows.greatest < b:
        return after, None
    beyond = max(rows.least, b + 1)
    return after.finished(), Offsets(beyond, rows.greatest + 1) if beyond <= rows.greatest else None


def backfilled_batch(split: Split, rows: Batch, stop: Stop | None) -> tuple[Split, Offsets | None]:
    """The split after records of Kafka, and the range of visible offsets, None if none is visible.

    ``stop`` is None if all records are below the target. OffsetsInvalid if an offset was read before, or if there are
    more records than offsets.
    """
    split.check_read(rows.least)
    _check_once(split, rows)
    after = replace(split, read=split.read + rows.count, scanned=rows.greatest)
    if not isinstance(split.state, Backfilling):
        return after, None
    if (stop is not None) != (split.target is not None and rows.greatest >= split.target):
        raise ValueError(f"{rows} stops at {stop}, target {split.target}")
    if stop is None:
        after = replace(after, state=Backfilling(rows.greatest), written=split.written + rows.count)
        return after, Offsets(rows.least, rows.greatest + 1)
    after = replace(after, written=split.written + stop.count)
    return after.stopped(stop.offset), Offsets(rows.least, stop.offset + 1)


def _check_once(split: Split, rows: Batch, **data: object) -> None:
    if rows.count > rows.greatest - rows.least + 1:
        raise OffsetsInvalid(
            f"partition {split.partition} has {rows.count} rows for the offsets {rows.least} to {rows.greatest}: an "
            "offset has several rows; plan again with on_existing='restart'",
            partition=split.partition,
            offset=rows.least,
            upto=rows.greatest,
            rows=rows.count,
            **data,
        )
