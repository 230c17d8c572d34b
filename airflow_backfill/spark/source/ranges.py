"""Cuts a source into ranges of its key, and ranges into chunks: the end of the next rows, and the cost to read them.

If the files are clustered by the key, chunks end where files end, and each file is opened about once. If not, each
chunk opens nearly all files; the plan reports how often before anything is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructType

from airflow_backfill.core.errors import DuplicateKey, HistoryLost, KeyNull
from airflow_backfill.core.splits.ranges import Key, KeyRanges
from airflow_backfill.core.state.effect import Chunks, NextChunk
from airflow_backfill.spark.session.failure import lost_history_named
from airflow_backfill.spark.source.changes import sample_of
from airflow_backfill.spark.source.key_groups import KeyGroups
from airflow_backfill.spark.source.key_order import KeyOrder
from airflow_backfill.spark.source.source import FilesOfRange, KeyFiles, Source

CLUSTERED = 1.3
"""A source counts as clustered by its key if its bytes are read at most this often."""
SAMPLE_KEYS = 20_000
"""Keys to sample for borders, if the source is not clustered."""
FEW_FILES = 1_000
"""Files that the driver may list."""
SHOWN_KEYS = 5
"""Repeated keys that an error shows."""


@dataclass(frozen=True)
class Ranges:
    """Cuts and reads the ranges of one source."""

    source: Source
    order: KeyOrder
    unique_at: int
    """An epoch at which the key is known to be unique."""

    @staticmethod
    def of(source: Source, key: Sequence[str], schema: StructType, unique_at: int) -> Ranges:
        """KeyInvalid if the key has no order."""
        return Ranges(source, KeyOrder.of(schema, key), unique_at)

    def cut(self, ranges: KeyRanges, asked: NextChunk) -> Chunks:
        """The next rows of the ranges at an epoch.

        Raises DuplicateKey if two of the rows have the same key, and KeyNull for a row that lost it before the first
        round.
        """
        first, low = ranges.reached(asked.positions)
        size = asked.bytes
        if ranges.rows:
            size = min(size, max(1, asked.rows * ranges.bytes // ranges.rows))
        files = self._files(asked.epoch)
        end = files.end(low, size)
        complete = self.order.count_upto(self.source.spark, ranges.borders, end) if end else len(ranges)
        # Files that end far beyond the requested size, or have no known end, are not clustered by the key. Then the
        # chunk ends at a planned border.
        parts = max(1, round(len(ranges) * size / max(ranges.bytes, 1)))
        if end is not None and complete - first > (2 * parts if end else parts):
            complete = first + parts
            end = ranges.borders[complete - 1]
        ends: dict[int, Key | None] = dict.fromkeys(range(first, complete))
        if end and (not complete or end != ranges.borders[complete - 1]):
            ends[complete] = end
        chosen, high = files.of_range(low, end or None), end or None
        if self._may_repeat(files, low, high):
            rows = self._counted(asked.epoch, low, high)
        else:
            rows = self._rows(asked.epoch, files, chosen, low, high)
        return Chunks(ends, chosen.files, chosen.bytes, rows)

    def rows(self, epoch: int, low: Key, high: Key | None) -> DataFrame:
        """The source's rows at an epoch with keys after ``low`` and up to ``high`` (inclusive; None: no limit)."""
        return self.source.at(epoch).where(self.order.between(low, high))

    def plan(self, epoch: int, parts: int, size: int) -> tuple[KeyRanges, float]:
        """Ranges for rounds of ``size`` bytes, and how often such a build reads the source's bytes."""
        files = self._files(epoch)
        every = files.of_range((), None)
        borders, whole, rows = files.ends(parts), every.bytes, self._rows(epoch, files, every, (), None)
        rounds = max(1, -(-whole // size))
        often = self._cost(files, borders, rounds, whole)
        if often > CLUSTERED:
            borders = self._quantiles(epoch, parts, rows)
            often = self._cost(files, borders, rounds, whole)
        return KeyRanges(tuple(borders), whole, rows), often

    def _cost(self, files: KeyFiles, borders: Sequence[Key], rounds: int, whole: int) -> float:
        """Bytes of the files that all rounds open, per byte of the source."""
        step = max(1, round((len(borders) + 1) / rounds))
        if not borders:
            return float(rounds)
        return files.bytes_of_rounds(borders[step - 1 :: step]) / whole if whole else 1.0

    def _quantiles(self, epoch: int, parts: int, rows: int) -> list[Key]:
        keys = self.source.at(epoch).select(*(column.alias(f"k{i}") for i, column in enumerate(self.order.columns())))
        named = self.order.renamed([f"k{i}" for i in range(len(self.order.names))])
        sample = keys.sample(min(1.0, SAMPLE_KEYS / max(rows, 1)), seed=0) if rows > SAMPLE_KEYS else keys
        sorted_keys = sample.orderBy(*named.columns()).select(*named.ordinals()).collect()
        places = [n * len(sorted_keys) // parts for n in range(1, parts)] if len(sorted_keys) >= parts else []
        return list(dict.fromkeys(self.order.border(list(sorted_keys[place])) for place in places))

    def _rows(self, epoch: int, files: KeyFiles, chosen: FilesOfRange, low: Key, high: Key | None) -> int:
        """The number of rows in a range, for which as few files as possible are read."""
        if not chosen.parted:
            return chosen.rows
        with lost_history_named():
            if chosen.parted > FEW_FILES:
                return self.rows(epoch, low, high).count()
            return chosen.rows + files.rows_of_parted(low, high).count()

    def _may_repeat(self, files: KeyFiles, low: Key, high: Key | None) -> bool:
        """Whether several rows of a range may have the same key: not if all of them were there when it was unique."""
        if self._unique is None:
            return True
        try:
            with lost_history_named():
                return files.has_new_rows(low, high, self._unique)
        except HistoryLost:
            return True

    @cached_property
    def _unique(self) -> KeyFiles | None:
        """The files of the epoch at which the key was unique; None if its log is gone."""
        try:
            with lost_history_named():
                return self._files(self.unique_at)
        except HistoryLost:
            return None

    def _counted(self, epoch: int, low: Key, high: Key | None) -> int:
        chosen = self.order.between(low, high)
        if not low:  # a row that lost its key before the first round is not among the changes of any round
            chosen = chosen | self.order.nameless()
        groups = KeyGroups.of(self.source.at(epoch).where(chosen), self.order.names)
        with lost_history_named():
            counted = groups.count()
            if counted.nameless:
                raise KeyNull(
                    f"{counted.nameless} rows have no key in the source at epoch {epoch}; a key must identify every "
                    "row; give them one in the source, or delete them there, then clear the task",
                    count=counted.nameless,
                    epoch=epoch,
                )
            twins = groups.repeated()
            count = twins.count() if counted.repeated else 0
            sample = [one | {"epoch": str(epoch)} for one in sample_of(twins, SHOWN_KEYS)] if count else []
        if count:
            raise DuplicateKey(
                f"{count} keys have several rows in the source at epoch {epoch}, for example {sample}; changes "
                "are applied by key, so rows would be lost; delete all rows but one of each key in the source, then "
                "clear the task",
                count=count,
                epoch=epoch,
                sample=sample,
            )
        return counted.rows

    def _files(self, epoch: int) -> KeyFiles:
        return self.source.key_files(epoch, self.order)


@dataclass(frozen=True, slots=True)
class Behind:
    """The keys up to a border (None: all keys), and rows with a missing key, so that those are found and refused."""

    order: KeyOrder
    border: Key | None

    def holds(self, key: Sequence[str]) -> Column:
        """Whether the key in these columns is at or before the border, or is missing."""
        order = self.order.renamed(key)
        return order.upto(self.border) | order.nameless()
