"""The interface of a source table on Spark, independent of its format."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pyspark.sql import DataFrame

from airflow_backfill.core.splits.ranges import Key
from airflow_backfill.core.values.epoch import EpochRange
from airflow_backfill.spark.source.changes import Changes
from airflow_backfill.spark.source.key_changes import KeyChanges
from airflow_backfill.spark.source.key_order import KeyOrder
from airflow_backfill.spark.source.key_value import KeyValue

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from typing_extensions import Self


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file of a version. ``rows`` counts live rows; None if the file has no count."""

    path: str
    size: int
    rows: int | None
    deleted: str | None = None
    """The identity of its deletion vector. A file with this path and vector has the same live rows in every version."""


class VersionFiles(Protocol):
    """The data files of one epoch, addressed by index in an order that never changes."""

    @property
    def files(self) -> Sequence[DataFile]: ...

    def read(self, *ranges: range) -> DataFrame:
        """The rows of exactly the files with these indices, at exactly this epoch."""

    def evenly(self, *ranges: range) -> AbstractContextManager[None]:
        """In the block, a job that reads exactly these files has tasks of about equal bytes."""


@dataclass(frozen=True, slots=True)
class FilesOfRange:
    """The files of one epoch that may hold keys of a range."""

    files: int
    bytes: int
    rows: int
    """Live rows of the files whose keys are all in the range."""
    parted: int
    """Files that may hold other keys, too, or whose rows are not counted."""


class KeyFiles(Protocol):
    """The keys that the files of one epoch may hold, from file statistics. As with each read that Spark filters, a file
    is trusted to hold no key beyond its statistics.
    """

    def end(self, after: Key, size: int) -> Key | None:
        """Where ``size`` bytes of files with keys after ``after`` end, with files ordered by their greatest keys: the
        greatest key of the last file needed. None if all files together are smaller. The empty key if that file has no
        statistics.
        """

    def ends(self, parts: int) -> list[Key]:
        """Greatest keys of files that cut the source into ``parts`` of about equal bytes; fewer if files are large."""

    def of_range(self, after: Key, upto: Key | None) -> FilesOfRange:
        """The files to open for keys after ``after`` up to ``upto``."""

    def rows_of_parted(self, after: Key, upto: Key | None) -> DataFrame:
        """The rows of the range that are in parted files."""

    def has_new_rows(self, after: Key, upto: Key | None, since: Self) -> bool:
        """Whether these files may hold a row that the files of an earlier epoch did not hold."""

    def bytes_of_rounds(self, borders: Sequence[Key]) -> int:
        """The bytes to read for rounds that end at these keys, and one more: a file counts in each that opens it."""

    def spans(self, parts: int) -> list[tuple[Key, Key]]:
        """The least and the greatest value of the key's first column in each of ``parts`` of about equal bytes, with
        files ordered by their greatest keys; fewer if files are large. Empty if a file has no statistics.
        """

    def share(self, spans: Sequence[tuple[Key, Key]]) -> float:
        """The share of all bytes in files that may hold a value of the key's first column in one of these ``spans``."""


class Source(Protocol):
    """A table with numbered epochs."""

    @property
    def spark(self) -> SparkSession: ...

    @property
    def head(self) -> int:
        """The newest epoch."""

    def at(self, epoch: int) -> DataFrame:
        """All rows as of an epoch."""

    def files(self, epoch: int) -> VersionFiles:
        """The data files of an epoch. Reading them raises HistoryLost if one is gone."""

    def key_files(self, epoch: int, order: KeyOrder) -> KeyFiles:
        """The data files of an epoch by the keys that they hold."""

    def changes(
        self, epochs: EpochRange, columns: Sequence[str], key: Sequence[str], *, feed: bool = True, whole: bool = False
    ) -> Changes:
        """The changes of ``epochs`` (at least one), with these ``columns``. Without ``feed`` only added rows are read,
        and no change data is needed. With ``whole``, removed rows have all their columns. HistoryLost if an epoch is
        gone.
        """

    def key_changes(self, epochs: EpochRange, key: KeyValue, *, feed: bool) -> KeyChanges:
        """The changes of one key, epoch by epoch, from the files of ``epochs`` (at least one) that can hold it.
        Without ``feed`` no change data is needed.
        """

    def later(self, session: SparkSession, epoch: int, *, feed: bool) -> DataFrame:
        """The epochs after ``epoch`` as a stream: changes with ``feed``, else added rows."""
