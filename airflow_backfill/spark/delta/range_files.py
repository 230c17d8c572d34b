"""The keys that the files of a version may hold, from the statistics in the log: where to cut ranges, and what a read
costs.

Statistics are hints. A file without statistics may hold any key, and long strings in them are truncated. A wrong hint
only moves the border between two chunks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import takewhile
from operator import add

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructField, StructType, TimestampType

from airflow_backfill.core.splits.ranges import Key
from airflow_backfill.spark.delta.snapshot_files import LIVE_ROWS, VECTOR
from airflow_backfill.spark.delta_internals import DeltaVersion
from airflow_backfill.spark.source.key_order import KeyOrder
from airflow_backfill.spark.source.source import FilesOfRange
from airflow_backfill.spark.transform.literal import ordinal

AT_ONCE = 64
"""Rounds in one expression: Spark compiles no larger one."""
_PHYSICAL = "delta.columnMapping.physicalName"


@dataclass(frozen=True)
class RangeFiles:
    """One row for each file of a version: size, live ``rows`` (null: not counted), deletion ``vector``, least key
    (``low_i``; null: before every value) and greatest key (``high_i``; null: after every value).
    """

    version: DeltaVersion
    order: KeyOrder
    frame: DataFrame

    @staticmethod
    def of(version: DeltaVersion, order: KeyOrder) -> RangeFiles:
        schema, partitions = version.schema, version.partition_columns
        physical = [physical_name(schema, name) for name in order.names]
        values = StructType([StructField(name, kind) for name, kind in zip(physical, order.kinds, strict=True)])
        shape = StructType([StructField("minValues", values), StructField("maxValues", values)])
        stats = F.from_json("stats", shape)
        lows, highs = [], []
        for name, kind, place in zip(order.names, order.kinds, physical, strict=True):
            if name in partitions:
                value = F.col("partitionValues")[place].cast(kind)
                lows.append(value)
                highs.append(value)
            else:
                lows.append(stats["minValues"][place])
                highs.append(_rounded_up(stats["maxValues"][place], kind))
        # If a file holds several values of a column, its statistics say nothing about the key's later columns.
        single: Column = F.lit(True)
        columns: list[Column] = []
        for i, (low, high) in enumerate(zip(lows, highs, strict=True)):
            columns += [F.when(single, low).alias(f"low_{i}"), F.when(single, high).alias(f"high_{i}")]
            single = single & (low == high)
        facts = (F.expr(text).alias(name) for name, text in (("rows", LIVE_ROWS), ("vector", VECTOR)))
        return RangeFiles(version, order, version.files.select("*", *facts, *columns))

    def end(self, after: Key, size: int) -> Key | None:
        """See ``KeyFiles.end``."""
        reached = self._summed(self.frame.where(self._beyond(after))).where(F.col("sum") >= size)
        row = reached.orderBy("sum", "path").select(*self._ordinals()).first()
        return None if row is None else self._key(row)

    def ends(self, parts: int) -> list[Key]:
        """See ``KeyFiles.ends``."""
        last = Window.partitionBy("part").orderBy(F.col("sum").desc(), F.col("path").desc())
        chosen = self._parted(parts).withColumn("place", F.row_number().over(last))
        rows = chosen.where("place = 1").orderBy("part").select(*self._ordinals()).collect()
        keys = dict.fromkeys(self._key(row) for row in rows[:-1])
        return [key for key in keys if key]

    def of_range(self, after: Key, upto: Key | None) -> FilesOfRange:
        """See ``KeyFiles.of_range``."""
        whole, needed = self._whole(after, upto), self.frame.where(self._needed(after, upto))
        figures = F.sum("size"), F.sum(F.when(whole, F.col("rows"))), F.count_if(~whole)
        row = needed.agg(F.count(F.lit(1)), *figures).first()
        assert row is not None
        return FilesOfRange(row[0], row[1] or 0, row[2] or 0, row[3])

    def rows_of_parted(self, after: Key, upto: Key | None) -> DataFrame:
        """See ``KeyFiles.rows_of_parted``."""
        parted = self.frame.where(self._needed(after, upto) & ~self._whole(after, upto))
        return self.version.read(self.version.collect_files(parted._jdf)).where(self.order.between(after, upto))

    def has_new_rows(self, after: Key, upto: Key | None, since: RangeFiles) -> bool:
        """See ``KeyFiles.has_new_rows``."""
        if since.version.version == self.version.version:
            return False
        needed = self.frame.where(self._needed(after, upto)).select("path", F.col("vector").alias("now"))
        # A vector only takes rows away.
        kept = F.col("vector").isNull() | (F.col("vector") == F.col("now"))
        old = since.frame.select("path", "vector").join(F.broadcast(needed), "path").where(kept)
        return old.count() < needed.count()

    def bytes_of_rounds(self, borders: Sequence[Key]) -> int:
        """See ``KeyFiles.bytes_of_rounds``."""
        rounds, read = list(zip([(), *borders], [*borders, None], strict=True)), 0
        for place in range(0, len(rounds), AT_ONCE):
            opened = (self._needed(after, upto).cast("bigint") for after, upto in rounds[place : place + AT_ONCE])
            row = self.frame.agg(F.sum(F.col("size") * reduce(add, opened))).first()
            assert row is not None
            read += row[0] or 0
        return read

    def spans(self, parts: int) -> list[tuple[Key, Key]]:
        """See ``KeyFiles.spans``."""
        ends = F.col("low_0"), F.col("high_0")
        known = F.count_if(ends[0].isNull() | ends[1].isNull()) == 0
        least, greatest = (ordinal(value, self.order.kinds[0]) for value in (F.min(ends[0]), F.max(ends[1])))
        found = self._parted(parts).groupBy("part").agg(known, least, greatest).orderBy("part").collect()
        if not all(row[1] for row in found):
            return []
        return [(self.order.border([low]), self.order.border([high])) for _, _, low, high in found]

    def share(self, spans: Sequence[tuple[Key, Key]]) -> float:
        """See ``KeyFiles.share``."""
        low, high = F.col("low_0"), F.col("high_0")
        held = F.lit(False)
        for (least,), (greatest,) in spans:
            apart = (high < F.expr(least)) | (low > F.expr(greatest))
            held = held | ~F.coalesce(apart, F.lit(False))
        row = self.frame.agg(F.sum(F.when(held, F.col("size"))), F.sum("size")).first()
        assert row is not None
        return (row[0] or 0) / row[1] if row[1] else 0.0

    def _highs(self) -> list[Column]:
        return [F.col(f"high_{i}") for i in range(len(self.order.names))]

    def _summed(self, files: DataFrame) -> DataFrame:
        """Files with the total bytes of all files that end no later (``sum``)."""
        by_end = Window.orderBy(*(high.asc_nulls_last() for high in self._highs()), F.col("path"))
        return files.withColumn("sum", F.sum("size").over(by_end.rowsBetween(Window.unboundedPreceding, 0)))

    def _parted(self, parts: int) -> DataFrame:
        """Files with the number of their part (``part``): ``parts`` of about equal bytes, ordered by their ends."""
        whole = self.frame.agg(F.coalesce(F.sum("size"), F.lit(0))).first()
        assert whole is not None
        part = F.floor((F.col("sum") - 1) * parts / F.lit(max(whole[0], 1)))
        return self._summed(self.frame).withColumn("part", part)

    def _key(self, row: Row) -> Key:
        return self.order.border(list(takewhile(lambda value: value is not None, row)))

    def _ordinals(self) -> list[Column]:
        return self.order.renamed([f"high_{i}" for i in range(len(self.order.names))]).ordinals()

    def _whole(self, after: Key, upto: Key | None) -> Column:
        """Whether all keys of a needed file are in the range, and its rows are counted."""
        begins = self._begins(after) if after else F.lit(False)
        beyond = self._beyond(upto) if upto is not None else F.lit(False)
        return ~begins & ~beyond & F.col("rows").isNotNull()

    def _needed(self, after: Key, upto: Key | None) -> Column:
        """Whether a file may hold keys after ``after`` up to ``upto``."""
        return self._beyond(after) & self._begins(upto)

    def _beyond(self, border: Key) -> Column:
        """Whether a file may hold keys after a border."""
        beyond = F.lit(not border)
        for high, text in reversed(list(zip(self._highs(), border, strict=False))):
            value = F.expr(text)
            beyond = high.isNull() | (high > value) | ((high == value) & beyond)
        return beyond

    def _begins(self, border: Key | None) -> Column:
        """Whether a file may hold keys up to a border."""
        if border is None:
            return F.lit(True)
        low = F.col("low_0")
        return low.isNull() | (low <= F.expr(border[0]))


def _rounded_up(highest: Column, kind: DataType) -> Column:
    """A greatest value that no value of the file exceeds: the log has timestamps rounded down to milliseconds."""
    return highest + F.expr("INTERVAL 1 MILLISECOND") if isinstance(kind, TimestampType) else highest


def physical_name(schema: StructType, name: str) -> str:
    """The name of a column in files and their statistics."""
    found: str = schema[name].metadata.get(_PHYSICAL, name)
    return found
