"""One key of a source, as a person types it: its values, conditions on rows, and whether a file can hold it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ByteType, DataType, DateType, DecimalType, IntegerType, LongType, ShortType, StructType

from airflow_backfill.core.errors import InvalidSpec
from airflow_backfill.spark.transform.transform import quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WHOLE = (ByteType, IntegerType, LongType, ShortType)


@dataclass(frozen=True)
class KeyValue:
    """The columns of a key in the source's order, their types, and a value for each."""

    names: tuple[str, ...]
    kinds: tuple[DataType, ...]
    texts: tuple[str, ...]
    values: tuple[str, ...]

    @staticmethod
    def parse(spark: SparkSession, schema: StructType, key: Sequence[str], given: Sequence[str]) -> KeyValue:
        """The key that ``given`` names, as ``column=value`` for each of its columns. InvalidSpec with the fix."""
        fields = {field.name.lower(): field for field in schema.fields}
        columns = [fields[name.lower()] for name in key]
        texts = _texts(given, [column.name for column in columns])
        kinds = tuple(column.dataType for column in columns)
        # As texts: Python knows no year above 9999.
        typed = [F.lit(text).try_cast(kind).cast("string") for text, kind in zip(texts, kinds, strict=True)]
        (row,) = spark.range(1).select(*(value.alias(f"value_{i}") for i, value in enumerate(typed))).collect()
        for column, text, value in zip(columns, texts, row, strict=True):
            if value is None:
                raise _wrong(f"{text!r} is no value of {column.name}, which has type {column.dataType.simpleString()}")
        return KeyValue(tuple(column.name for column in columns), kinds, texts, tuple(row))

    def matches(self, names: Sequence[str] | None = None) -> Column:
        """Whether a row has this key; ``names`` are its columns there, if they have other names."""
        same = F.lit(True)
        for name, kind, text in zip(names or self.names, self.kinds, self.texts, strict=True):
            same = same & (F.col(quoted(name)) == F.lit(text).cast(kind))
        return same

    def may_be_in(self, physical: Sequence[str], stats: Mapping[str, Any], partition: Mapping[str, Any]) -> bool:
        """Whether a file with these statistics and partition values can hold the key. True if they do not say.

        ``physical`` are the names of the key's columns in files.
        """
        lows, highs = stats.get("minValues") or {}, stats.get("maxValues") or {}
        for name, kind, value in zip(physical, self.kinds, self.values, strict=True):
            ends = (partition[name],) * 2 if name in partition else (lows.get(name), highs.get(name))
            wanted = _comparable(value, kind)
            low, high = (_comparable(end, kind) for end in ends)
            if wanted is not None and ((low is not None and wanted < low) or (high is not None and wanted > high)):
                return False
        return True


def _texts(given: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    found: dict[str, str] = {}
    for one in given:
        name, equals, text = one.partition("=")
        column = next((known for known in names if known.lower() == name.strip().lower()), None)
        if not equals or column is None or column in found:
            raise _wrong(f"{one!r} does not name a column of the key ({', '.join(names)}) once")
        found[column] = text
    missing = [name for name in names if name not in found]
    if missing:
        raise _wrong(f"{', '.join(missing)} is missing")
    return tuple(found[name] for name in names)


def _wrong(what: str) -> InvalidSpec:
    return InvalidSpec(f"--key: {what}; give each column of the key as column=value", field="--key")


def _comparable(value: Any, kind: DataType) -> Any:
    """The value in the form in which statistics and keys of this type are compared; None if they are not."""
    try:
        if value is None or isinstance(value, bool):
            return None
        if isinstance(kind, _WHOLE):
            return int(value)
        if isinstance(kind, DecimalType):
            return Decimal(str(value))
        if isinstance(kind, DateType):
            return date.fromisoformat(value)
    except (ArithmeticError, TypeError, ValueError):
        return None
    # Statistics hold the first characters of long strings, and code points sort as Spark's UTF-8 does.
    return value if kind.simpleString() == "string" and isinstance(value, str) else None
