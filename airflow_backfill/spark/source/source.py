"""A table that is read: what Spark's side asks of it, whatever its format is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from airflow_backfill.core.splits.ranges import Key
from airflow_backfill.core.values.epoch import EpochRange
from airflow_backfill.spark.source.changes import Changes
from airflow_backfill.spark.source.key_order import KeyOrder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file of a version. ``rows`` are those that are alive; None if the file carries no count."""

    path: str
    size: int
    rows: int | None
    deleted: str | None = None
    """Which of its rows are deleted: the identity of its deletion vector. A file of this path and vector holds the same
    live rows in every version.
    """


class VersionFiles(Protocol):
    """The data files of one epoch, in one order for ever, addressed by index."""

    @property
    def files(self) -> Sequence[DataFile]: ...

    def read(self, *ranges: range) -> DataFrame:
        """The rows of the files with these indices: exactly those files, as of exactly this epoch."""


class KeyFiles(Protocol):
    """Which keys the files of one epoch may hold, as far as anybody wrote that down. Hints: no row depends on them."""

    def end(self, after: Key, size: int) -> Key | None:
        """The greatest key of the file with which the files that have keys after ``after``, in the order of their
        greatest keys, reach ``size`` bytes; None if all of them together do not. The empty key if nobody knows where
        that file ends.
        """

    def ends(self, parts: int) -> list[Key]:
        """Greatest keys of files, between parts of about equal bytes; fewer where files do not end there."""

    def cost(self, after: Key, upto: Key | None) -> tuple[int, int]:
        """How many files have to be opened for the keys in between, and their bytes."""


class Source(Protocol):
    """A table with numbered, committed epochs."""

    @property
    def spark(self) -> SparkSession: ...

    @property
    def head(self) -> int:
        """The newest epoch."""

    def at(self, epoch: int) -> DataFrame:
        """All rows as of an epoch."""

    def files(self, epoch: int) -> VersionFiles:
        """The data files of an epoch. HistoryLost, when they are read, if one is gone."""

    def key_files(self, epoch: int, schema: StructType, order: KeyOrder, partitions: Sequence[str]) -> KeyFiles:
        """Its files by the keys that they hold."""

    def changes(self, epochs: EpochRange, columns: Sequence[str], key: Sequence[str], *, feed: bool = True) -> Changes:
        """The changes of ``epochs`` (at least one), as ``columns``. With ``feed`` off nothing but added rows is wanted,
        and no change data is needed. HistoryLost if an epoch is gone.
        """

    def later(self, session: SparkSession, epoch: int, *, feed: bool) -> DataFrame:
        """What comes after an epoch, as a stream: changes with ``feed``, else the rows that are added."""
