"""Finds keys that several rows have.

Rows are counted in groups of keys, so that few bytes are shuffled. Keys are looked at one by one only in a group where
some key has several rows.

A key that ends with a whole number, or with two, is one bit among 64 neighbours. Where keys are dense and neighbours
lie together, a whole word of them is shuffled once; at worst each key takes a word, which is what its hash would take.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import takewhile
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ByteType, IntegerType, LongType, ShortType

from airflow_backfill.spark.source.words import bit_of, bit_of_pair, word_of, word_of_pair
from airflow_backfill.spark.transform.transform import OWN, any_missing, quoted

WHOLE = (ByteType, ShortType, IntegerType, LongType)
GROUP_BYTES = 24
"""What a group takes in a shuffle."""
MANY_KEYS = 10**9
"""From so many keys on a second hash is taken, for eight bytes more a row: of 10^10 keys, three pairs are expected to
have the same 64 bits, and that costs another scan.
"""
SUSPECTS = 10_000
"""Groups whose keys are looked at one by one: at most 64 times as many keys are told."""


@dataclass(frozen=True)
class KeyCount:
    """``rows``: all; ``nameless``: those without a key; ``repeated``: whether some key may have several rows. It has
    none if this is false.
    """

    rows: int
    nameless: int
    repeated: bool


@dataclass(frozen=True)
class KeyGroups:
    """Rows in groups of keys that have ``_by`` in common. Rows without a key are one group, where it is null."""

    _rows: DataFrame
    _key: tuple[str, ...]
    _by: Mapping[str, Column]
    _keys: Column
    """How many keys a group has: an aggregate, too small if two keys cannot be told apart."""

    @staticmethod
    def of(rows: DataFrame, key: Sequence[str], many: bool = False) -> KeyGroups:
        """``many``: whether two of the keys may have the same hash of 64 bits."""
        columns = [F.col(quoted(name)) for name in key]
        kinds = [field.dataType for field in rows.select(*columns).schema]
        numbers = [column.cast("long") for column in columns[-2:]]
        ends = len(list(takewhile(lambda kind: isinstance(kind, WHOLE), reversed(kinds))))
        if ends > 1:
            high, low = word_of_pair(*numbers)
            by, bit = {"word": low, "hash": F.xxhash64(*columns[:-2], high)}, bit_of_pair(*numbers)
        elif ends:
            by, bit = {"word": word_of(numbers[-1])}, bit_of(numbers[-1])
            if len(columns) > 1:
                by["hash"] = F.xxhash64(*columns[:-1])
        else:
            by = {"hash": F.xxhash64(*columns)}
            if many:
                by["second"] = F.xxhash64(F.lit(1), *reversed(columns))
        keys = F.bit_count(F.bit_or(bit)) if ends else F.lit(1)
        named = ~any_missing(columns)
        return KeyGroups(rows, tuple(key), {OWN + name: F.when(named, value) for name, value in by.items()}, keys)

    def count(self) -> KeyCount:
        """Shuffles at most ``GROUP_BYTES`` for each row, and eight more if the key has several columns."""
        groups = self._counted()
        found = groups.agg(
            F.sum("rows"), F.sum(F.when(self._is_nameless(), F.col("rows"))), F.count_if(self._repeats())
        )
        rows, nameless, repeated = found.collect()[0]
        return KeyCount(rows or 0, nameless or 0, repeated > 0)

    def nameless(self) -> DataFrame:
        """The keys that miss a column, one for each row."""
        columns = self._columns()
        return self._rows.where(any_missing(columns)).select(*columns)

    def repeated(self) -> DataFrame:
        """The keys with several rows."""
        suspected = self._counted().where(self._repeats()).select(*self._by).limit(SUSPECTS)
        same = reduce(and_, (value == F.col(name) for name, value in self._by.items()))
        suspects = self._rows.select(*self._columns()).join(F.broadcast(suspected), same)
        counted = suspects.groupBy(*self._columns()).agg(F.count(F.lit(1)).alias(OWN + "rows"))
        return counted.where(F.col(OWN + "rows") > 1).drop(OWN + "rows")

    def _counted(self) -> DataFrame:
        by = (value.alias(name) for name, value in self._by.items())
        return self._rows.groupBy(*by).agg(F.count(F.lit(1)).alias("rows"), self._keys.alias("keys"))

    def _repeats(self) -> Column:
        return ~self._is_nameless() & (F.col("rows") > F.col("keys"))

    def _is_nameless(self) -> Column:
        return F.col(next(iter(self._by))).isNull()

    def _columns(self) -> list[Column]:
        return [F.col(quoted(name)) for name in self._key]
