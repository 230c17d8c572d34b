"""Which keys a version's files may hold, as the statistics in the log say: where to cut ranges, and what reading costs.

Statistics are hints. A file without them may hold any key; a text in them may be cut off. Whatever they say, a border
only says where one chunk ends and the next begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from airflow_backfill.core.splits.ranges import Key
from airflow_backfill.spark.delta_internals import DeltaVersion
from airflow_backfill.spark.source.key_order import KeyOrder

_PHYSICAL = "delta.columnMapping.physicalName"


@dataclass(frozen=True)
class RangeFiles:
    """The files of one version: a row each, with its least key (``low_i``, missing means: before every value) and its
    greatest (``high_i``, missing means: after every value).
    """

    order: KeyOrder
    frame: DataFrame

    @staticmethod
    def of(version: DeltaVersion, schema: StructType, order: KeyOrder, partitions: Sequence[str]) -> RangeFiles:
        physical = [schema[name].metadata.get(_PHYSICAL, name) for name in order.names]
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
                highs.append(stats["maxValues"][place])
        # Of a file that holds several values of a column, nothing is known about the columns behind it.
        single: Column = F.lit(True)
        columns: list[Column] = []
        for i, (low, high) in enumerate(zip(lows, highs, strict=True)):
            columns += [F.when(single, low).alias(f"low_{i}"), F.when(single, high).alias(f"high_{i}")]
            single = single & (low == high)
        return RangeFiles(order, version.files.select("path", "size", *columns))

    def end(self, after: Key, size: int) -> Key | None:
        """The greatest key of the file with which the files that have keys after ``after``, in the order of their
        greatest keys, reach ``size`` bytes; None if all of them together do not. The empty key if nobody knows where
        that file ends.
        """
        reached = self._summed(self.frame.where(self._beyond(after))).where(F.col("sum") >= size)
        row = reached.orderBy("sum", "path").select(*self._ordinals()).first()
        return None if row is None else self._key(row)

    def ends(self, parts: int) -> list[Key]:
        """Greatest keys of files, between parts of about equal bytes; fewer where files do not end there."""
        whole = self.frame.agg(F.coalesce(F.sum("size"), F.lit(0))).first()
        assert whole is not None
        part = F.floor((F.col("sum") - 1) * parts / F.lit(max(whole[0], 1)))
        last = Window.partitionBy("part").orderBy(F.col("sum").desc(), F.col("path").desc())
        chosen = self._summed(self.frame).withColumn("part", part).withColumn("place", F.row_number().over(last))
        rows = chosen.where("place = 1").orderBy("part").select(*self._ordinals()).collect()
        keys = dict.fromkeys(self._key(row) for row in rows[:-1])
        return [key for key in keys if key]

    def cost(self, after: Key, upto: Key | None) -> tuple[int, int]:
        """How many files have to be opened for the keys in between, and their bytes."""
        needed = self.frame.where(self._beyond(after) & self._begins(upto))
        row = needed.agg(F.count(F.lit(1)), F.coalesce(F.sum("size"), F.lit(0))).first()
        assert row is not None
        return row[0], row[1]

    def _highs(self) -> list[Column]:
        return [F.col(f"high_{i}") for i in range(len(self.order.names))]

    def _summed(self, files: DataFrame) -> DataFrame:
        """Files with the bytes of those that end no later (``sum``)."""
        by_end = Window.orderBy(*(high.asc_nulls_last() for high in self._highs()), F.col("path"))
        return files.withColumn("sum", F.sum("size").over(by_end.rowsBetween(Window.unboundedPreceding, 0)))

    def _key(self, row: Row) -> Key:
        return self.order.border(list(takewhile(lambda value: value is not None, row)))

    def _ordinals(self) -> list[Column]:
        return self.order.renamed([f"high_{i}" for i in range(len(self.order.names))]).ordinals()

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
