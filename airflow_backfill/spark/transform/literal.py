"""Values as SQL literals of exactly their column's type.

Delta prunes files by comparing a column with a literal. A literal of another type causes a cast, and nothing is pruned.
A timestamp converted to a local time zone could prune files that must be read.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ByteType,
    DataType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    TimestampType,
)

_SUFFIX: dict[type[DataType], str] = {ByteType: "Y", ShortType: "S", IntegerType: "", LongType: "L"}
ORDERED = (
    ByteType,
    ShortType,
    IntegerType,
    LongType,
    DecimalType,
    DateType,
    TimestampType,
    StringType,
)
"""Types whose order is the same in Spark, in the log's statistics and in literals."""
_EPOCH = datetime(1970, 1, 1)
_MAX_CHARACTERS = 200


def ordinal(column: Column, kind: DataType) -> Column:
    """The column as the value that ``literal`` accepts: in the same order, and exact in Python."""
    if isinstance(kind, TimestampType):
        return F.unix_micros(column)
    if isinstance(kind, DateType):
        return F.unix_date(column)
    if isinstance(kind, ORDERED):
        return column
    return F.lit(None).cast("int")


def literal(value: Any, kind: DataType) -> str | None:
    """The value as SQL; None for a text that has no exact and short form."""
    try:
        if isinstance(kind, TimestampType):
            return f"TIMESTAMP'{(_EPOCH + timedelta(microseconds=value)).isoformat()}Z'"
        if isinstance(kind, DateType):
            return f"DATE'{(date(1970, 1, 1) + timedelta(days=value)).isoformat()}'"
    except OverflowError:  # Python does not know the year
        return f"{'DATE_FROM_UNIX_DATE' if isinstance(kind, DateType) else 'TIMESTAMP_MICROS'}({value})"
    if isinstance(kind, StringType):
        # Bytes that are no UTF-8 have become the replacement character on their way to Python.
        plain = value.isprintable() and not {"'", "\\", "\ufffd"} & set(value)
        return f"'{value}'" if plain and len(value) <= _MAX_CHARACTERS else None
    if isinstance(kind, DecimalType):
        return f"CAST({value:f} AS {kind.simpleString()})"
    return f"{value}{_SUFFIX[type(kind)]}"
