"""A row as text: equal rows have equal texts, different rows have different ones.

Every value has a type tag and a marked end, so these differ: (null, 1) and (1, null), "1" and 1, ("a", "b") and
("ab", ""). Zeros and NaNs have one form, decimals keep their scale, timestamps are microseconds in UTC, maps are sorted
by key. Strings are not changed.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from airflow_backfill.core.errors import UnsupportedTable
from airflow_backfill.spark.transform.transform import quoted

NULL = "N"
_PLAIN: dict[type[DataType], str] = {
    BooleanType: "o",
    ByteType: "b",
    ShortType: "s",
    IntegerType: "i",
    LongType: "l",
    TimestampNTZType: "w",
}


def canonical_row(schema: StructType) -> Column:
    """The text of a whole row; never null."""
    return F.concat(*(canonical(F.col(quoted(f.name)), f.dataType) for f in schema.fields))


def check_canonical(schema: StructType) -> None:
    """Raise UnsupportedTable if a column cannot be verified. Called at the plan, so that no build fails hours later."""
    for kind in {field.dataType.json(): field.dataType for field in schema.fields}.values():
        canonical(F.lit(None), kind)


def canonical(value: Column, kind: DataType) -> Column:
    """The text of a value of this type; never null."""
    return F.coalesce(_present(value, kind), F.lit(NULL))


def _present(value: Column, kind: DataType) -> Column:
    """The text of a value; null if the value is null."""
    if isinstance(kind, (StructType, ArrayType, MapType)):
        return _nested(value, kind)
    if isinstance(kind, (StringType, VariantType)):
        return _long(value, kind)
    if type(kind) in _PLAIN:
        return _ended(_PLAIN[type(kind)], value.cast("string"))
    return _short(value, kind)


def _long(value: Column, kind: StringType | VariantType) -> Column:
    """Text with any characters, after its length."""
    if isinstance(kind, StringType):
        tag, text = "t", value.cast("string")
    else:
        tag, text = "v", F.concat(F.schema_of_variant(value), F.lit(" "), F.to_json(value))
    return F.concat(F.lit(tag), F.octet_length(text).cast("string"), F.lit(":"), text)


def _short(value: Column, kind: DataType) -> Column:
    if isinstance(kind, DecimalType):
        return _ended(f"m{kind.precision},{kind.scale}e", value.cast("string"))
    if isinstance(kind, (FloatType, DoubleType)):
        # Adding zero turns -0.0 into 0.0.
        return _ended("f" if isinstance(kind, FloatType) else "d", (value + F.lit(0.0).cast(kind)).cast("string"))
    if isinstance(kind, TimestampType):
        return _ended("z", F.unix_micros(value).cast("string"))
    if isinstance(kind, DateType):
        return _ended("a", F.unix_date(value).cast("string"))
    if isinstance(kind, BinaryType):
        return _ended("x", F.hex(value))
    if isinstance(kind, NullType):
        return value.cast("string")
    name = kind.simpleString()
    raise UnsupportedTable(
        f"a column of type {name} has no exact text, so the target could not be verified; leave it out of select, or "
        "cast it",
        type=name,
    )


def _nested(value: Column, kind: StructType | ArrayType | MapType) -> Column:
    if isinstance(kind, StructType):
        fields = [canonical(value.getField(f.name), f.dataType) for f in kind.fields]
        return F.when(value.isNotNull(), F.concat(F.lit("S("), *fields, F.lit(")")))
    if isinstance(kind, ArrayType):
        element = kind.elementType
        items = F.transform(value, lambda item: canonical(item, element))
        return F.concat(F.lit("A"), F.size(value).cast("string"), F.lit("["), F.array_join(items, ""), F.lit("]"))
    pairs = F.transform(
        F.map_entries(value),
        lambda pair: F.concat(
            canonical(pair.getField("key"), kind.keyType), canonical(pair.getField("value"), kind.valueType)
        ),
    )
    items = F.array_join(F.array_sort(pairs), "")
    return F.concat(F.lit("M"), F.size(value).cast("string"), F.lit("{"), items, F.lit("}"))


def _ended(tag: str, text: Column) -> Column:
    """Text without a semicolon, which marks its end."""
    return F.concat(F.lit(tag), text, F.lit(";"))
