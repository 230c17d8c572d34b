"""The set form: rows of one partition that were read together, from what an aggregation gives.

It says what the row form says of the same rows in rising order (S001.12), wherever the rows are cut into batches.
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
    """The record at which a backfill stops: the least one of a batch at or beyond the target."""

    offset: int
    count: int
    """Records of the batch up to it, itself included."""


def upstream_batch(split: Split, rows: Batch, versions: EpochRange) -> tuple[Split, Offsets | None]:
    """The split after rows of the landing table, all that ``versions`` hold of the partition, and the visible ones.

    Visible are the rows whose offsets lie in the range; None for none. OffsetsInvalid, naming the versions, if an
    offset is not greater than all before the batch, or if there are more rows than offsets. An offset that is twice in
    a batch with holes is not seen here.
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
    """The split after records of Kafka, and the range of the visible ones; None for none.

    ``stop`` is None if all of them are below the target. OffsetsInvalid if an offset was read before, or if there are
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
            f"partition {split.partition} has {rows.count} rows from offset {rows.least} to {rows.greatest}: an "
            "offset has several rows; repair the landing table, then clear the task",
            partition=split.partition,
            offset=rows.least,
            upto=rows.greatest,
            rows=rows.count,
            **data,
        )
