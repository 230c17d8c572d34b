"""Rows that Spark computes once and holds on executors, because a round reads them more than once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame


def stage(rows: DataFrame) -> DataFrame:
    """The rows, held by Spark in memory or on disk from the first read until ``release``.

    Not persist(): Delta copies a cached source once more before a MERGE.
    """
    return rows.localCheckpoint(eager=False, storageLevel=StorageLevel.MEMORY_AND_DISK)


def held_bytes(staged: DataFrame) -> int:
    """The bytes of staged rows in memory and on disk; 0 if they were not read yet."""
    number = _rdd(staged).id()
    held = staged.sparkSession.sparkContext._jsc.sc().getRDDStorageInfo()
    return sum(int(one.memSize() + one.diskSize()) for one in held if one.id() == number)


def release(staged: DataFrame) -> None:
    """Free the staged rows."""
    _rdd(staged).unpersist(False)


@contextmanager
def held(rows: DataFrame) -> Iterator[DataFrame]:
    """``stage`` for the duration of the block."""
    staged = stage(rows)
    try:
        yield staged
    finally:
        release(staged)


def _rdd(staged: DataFrame) -> Any:
    return staged._jdf.queryExecution().analyzed().rdd()
