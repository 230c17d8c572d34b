"""Rows that are computed once and read more than once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import StorageLevel
from pyspark.sql import DataFrame


def stage(rows: DataFrame) -> DataFrame:
    """The rows, held by Spark in memory or on disk from the first read until ``release``.

    Not persist(): Delta copies a cached source once more before a MERGE.
    """
    return rows.localCheckpoint(eager=False, storageLevel=StorageLevel.MEMORY_AND_DISK)


def release(staged: DataFrame) -> None:
    """Free the staged rows."""
    staged._jdf.queryExecution().analyzed().rdd().unpersist(False)


@contextmanager
def held(rows: DataFrame) -> Iterator[DataFrame]:
    """``stage`` for the duration of the block."""
    staged = stage(rows)
    try:
        yield staged
    finally:
        release(staged)
