"""A row as two 64-bit hashes of its typed values: equal rows have equal hashes.

A value is hashed as Spark stores it: a number as a number, a decimal by its digits, a timestamp by its microseconds, a
string by its bytes, whatever its collation. Zeros and NaNs have one form. Arrays, maps and variants are hashed by their
canonical texts, the fields of a struct one by one. Both sides of a comparison must have columns of the same types, in
the same order.

Spark's xxHash skips nulls, so (null, 1) and (1, null) would be equal: which values are null is hashed, too. The second
hash has another seed and takes the values in reverse order, so that rows which collide in one do not collide in the
other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, VariantType

from airflow_backfill.spark.digest.canonical import canonical

_FLAGS = 63
"""Null flags in one long."""


def typed_hashes(values: Sequence[tuple[Column, DataType]]) -> tuple[Column, Column]:
    """The two hashes of a row of these values: longs, never null."""
    hashed = [part for value, kind in values for part in _values(value, kind)]
    flags = [part.isNull() for value, kind in values for part in _nullable(value, kind)]
    words = [_word(flags[start : start + _FLAGS]) for start in range(0, len(flags), _FLAGS)]
    parts = [*hashed, *words]
    return F.xxhash64(F.lit(0), *parts), F.xxhash64(F.lit(1), *reversed(parts))


def _values(value: Column, kind: DataType) -> Iterator[Column]:
    """What is hashed of a value; null where the value is null, or a text that says so."""
    if isinstance(kind, StructType):
        for field in kind.fields:
            yield from _values(value.getField(field.name), field.dataType)
    elif isinstance(kind, (ArrayType, MapType, VariantType)):
        yield canonical(value, kind)
    else:
        yield value


def _nullable(value: Column, kind: DataType) -> Iterator[Column]:
    """The value, and the fields of a struct."""
    yield value
    if isinstance(kind, StructType):
        for field in kind.fields:
            yield from _nullable(value.getField(field.name), field.dataType)


def _word(flags: list[Column]) -> Column:
    """The flags as the bits of one long."""
    return reduce(Column.bitwiseOR, [F.shiftleft(flag.cast("long"), n) for n, flag in enumerate(flags)])
