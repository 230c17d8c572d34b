"""The order of a source's keys, as Spark compares them: conditions on rows, with borders as SQL literals.

A border is a prefix of a key (see ``key_ranges``). A key is at or before a border if its first columns are, compared
from left to right. Every key that begins with the border is at or before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from airflow_backfill.core.errors import KeyInvalid
from airflow_backfill.core.splits.ranges import Key
from airflow_backfill.spark.transform.literal import ORDERED, literal, ordinal
from airflow_backfill.spark.transform.transform import any_missing, quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class KeyOrder:
    """The key columns of a source, most significant first."""

    names: tuple[str, ...]
    kinds: tuple[DataType, ...]

    @staticmethod
    def of(schema: StructType, key: Sequence[str]) -> KeyOrder:
        """KeyInvalid if a column's type has no order that Spark and file statistics share."""
        fields = {field.name.lower(): field for field in schema.fields}
        columns = [fields[name.lower()] for name in key]
        for name, kind in ((column.name, column.dataType) for column in columns):
            if not isinstance(kind, ORDERED) or "collate" in kind.simpleString():
                raise KeyInvalid(
                    f"key: column {name!r} has type {kind.simpleString()}, which has no order to cut the source by; "
                    "choose another key, or strategy='snapshot' with a proof that is not sampled",
                    column=name,
                )
        return KeyOrder(tuple(c.name for c in columns), tuple(c.dataType for c in columns))

    def renamed(self, names: Sequence[str]) -> KeyOrder:
        """The same order, for columns with other names."""
        return KeyOrder(tuple(names), self.kinds)

    def columns(self) -> list[Column]:
        return [F.col(quoted(name)) for name in self.names]

    def after(self, border: Key) -> Column:
        """Whether a key comes after a border. The empty border is before every key."""
        beyond = F.lit(not border)
        for column, text in reversed(list(zip(self.columns(), border, strict=False))):
            value = F.expr(text)
            beyond = (column > value) | ((column == value) & beyond)
        return beyond

    def upto(self, border: Key | None) -> Column:
        """Whether a key is at or before a border. None is after every key."""
        if border is None:
            return F.lit(True)
        pruned = self.columns()[0] <= F.expr(border[0]) if border else F.lit(True)
        return pruned & ~self.after(border)

    def between(self, low: Key, high: Key | None) -> Column:
        """Whether a key is after ``low`` and at or before ``high``."""
        pruned = self.columns()[0] >= F.expr(low[0]) if low else F.lit(True)
        return pruned & self.after(low) & self.upto(high)

    def count_upto(self, spark: SparkSession, borders: Sequence[Key], end: Key) -> int:
        """How many of these borders are at or before ``end``."""
        if not borders:
            return 0
        reached = " + ".join(f"CAST({_not_after(border, end)} AS INT)" for border in borders)
        row = spark.sql(f"SELECT {reached} FROM VALUES (0)").first()  # Spark evaluates it without a job
        assert row is not None
        count: int = row[0]
        return count

    def nameless(self) -> Column:
        """Whether a key column is missing. Such a row has no place in the order."""
        return any_missing(self.columns())

    def ordinals(self) -> list[Column]:
        """The columns as the values that ``border`` accepts."""
        return [ordinal(column, kind) for column, kind in zip(self.columns(), self.kinds, strict=True)]

    def border(self, values: Sequence[Any]) -> Key:
        """The border with these ordinals of the first columns."""
        return tuple(
            literal(value, kind) or f"CAST(X'{str(value).encode().hex()}' AS STRING)"
            for value, kind in zip(values, self.kinds, strict=False)
        )


def _not_after(border: Key, end: Key) -> str:
    """Whether every key that begins with ``border`` is at or before ``end``, as SQL."""
    if not end or not border:
        return "FALSE" if end else "TRUE"
    return f"({border[0]} < {end[0]} OR {border[0]} = {end[0]} AND {_not_after(border[1:], end[1:])})"
