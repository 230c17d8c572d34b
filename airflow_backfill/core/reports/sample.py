"""Which of the source's epochs a measurement of speeds reads."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_backfill.core.source.epoch import Epoch
from airflow_backfill.core.values.epoch import EpochRange

SAMPLE_BYTES = 64 << 20
"""Bytes of the data that is read, at most."""
SAMPLE_EPOCHS = 32
TOUCHED_BYTES = 1 << 30
"""Bytes of the files that the epochs may touch: to find what deletion vectors remove, Spark reads in them."""


def is_initial_load(epoch: Epoch, table_rows: int | None) -> bool:
    """Whether it has half of the table's rows or more. False if these are not known."""
    return table_rows is not None and 2 * epoch.rows >= table_rows


def sampled(recent: Sequence[Epoch], table_rows: int | None) -> EpochRange:
    """The newest epochs that are no initial load, as many as are small enough; perhaps none. ``recent``: oldest first,
    without gaps.

    The first one after an initial load is left out if there are others. Its files have no deletion vectors yet, so it
    reads faster than those that come.
    """
    stop = recent[-1].number + 1 if recent else 0
    start, changed, touched = stop, 0, 0
    for epoch in reversed(recent[-SAMPLE_EPOCHS:]):
        changed, touched = changed + epoch.weight, touched + epoch.bytes
        if is_initial_load(epoch, table_rows):
            if start + 1 < stop:
                start += 1
            break
        if epoch.stop is not None or changed > SAMPLE_BYTES or touched > TOUCHED_BYTES:
            break
        start = epoch.number
    return EpochRange(start, stop)
