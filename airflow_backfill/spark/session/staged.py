"""Rows that are computed once and read more than once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import StorageLevel
from pyspark.sql import DataFrame


def stage(rows: DataFrame) -> DataFrame:
    """The rows as Spark will hold them from their first reading on, in memory or on disk, until ``release``.

    Not persist(): Delta copies a cached source once more before it merges, and refuses to take it as it is.
    """
    return rows.localCheckpoint(eager=False, storageLevel=StorageLevel.MEMORY_AND_DISK)


def release(staged: DataFrame) -> None:
    """Let Spark forget the staged rows."""
    staged._jdf.queryExecution().analyzed().rdd().unpersist(False)


@contextmanager
def held(rows: DataFrame) -> Iterator[DataFrame]:
    """``stage`` for as long as a block lasts."""
    staged = stage(rows)
    try:
        yield staged
    finally:
        release(staged)
