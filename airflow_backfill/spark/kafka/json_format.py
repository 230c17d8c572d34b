"""Decodes a JSON object with the fields of a schema, or gives the reason why a text is not one.

Stricter than Spark. ``from_json`` stops after the first value, reads a number as a timestamp in seconds (which can
overflow), a time without a date as today's, and a number too large for a double as infinity. It does not say which of
its nulls are errors. So where it would guess, it is asked for strings, and other functions check the rest. Dates and
times must be strings; a time without a zone is in the session's time zone.

Some deviations are accepted:

* fields that the schema does not name are left out, missing fields are null, and of repeated fields the last one wins;
* digits beyond the precision of a DECIMAL, FLOAT or DOUBLE are rounded, those of a TIMESTAMP are truncated;
* in a STRING, half of a surrogate pair becomes a question mark, and a number or an object becomes JSON text again, in
  which fractions are doubles. Use DECIMAL or VARIANT if all digits matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import or_

from pyspark.errors import PySparkException
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from airflow_backfill.core.errors import InvalidSpec

# Not TINYINT: 200 is read as -56.
_LEAVES = (BinaryType, BooleanType, DecimalType, IntegerType, LongType, ShortType, VariantType)
_FLOATS = (DoubleType, FloatType)
_DAY = r"^\d{4}-\d\d-\d\d"
_TIMES: dict[type[DataType], str] = {
    DateType: _DAY + "$",
    TimestampType: _DAY + r"[T ]\d",
    # Without a zone, which a cast would drop.
    TimestampNTZType: _DAY + r"[T ]\d\d:\d\d(:\d\d(\.\d+)?)?$",
}
"""The required form of dates and times: Spark alone accepts incomplete ones."""

_WHOLE = "_backfill_json"
_CORRUPT = "_backfill_corrupt"


@dataclass(frozen=True)
class JsonReading:
    """UTF-8 text with one JSON object whose fields fit ``schema``."""

    schema: StructType
    version: str = "1"

    @staticmethod
    def of(side: str, ddl: str) -> JsonReading:
        """The reading of a schema in Spark's DDL; InvalidSpec with the reason if it cannot be used."""
        try:
            schema = StructType.fromDDL(ddl)
        except PySparkException as error:
            raise _invalid(side, str(error).strip().splitlines()[0][:300]) from None
        if not isinstance(schema, StructType):
            raise _invalid(side, "it names no fields; write them as `name TYPE, name TYPE`")
        _check(side, "", schema)
        return JsonReading(schema)

    def look(self, raw: Column) -> Column:
        text = raw.cast("string")
        asked = StructType([StructField(_WHOLE, _asked(self.schema)), StructField(_CORRUPT, StringType())])
        options = {
            "mode": "PERMISSIVE",
            "columnNameOfCorruptRecord": _CORRUPT,
            "allowSingleQuotes": "false",
            "allowNonNumericNumbers": "false",
        }
        # Nothing may follow the text. In an object only a comma or a brace can follow it, in an array only a comma or a
        # bracket; with a comma the array would have two elements.
        alone = F.json_array_length(F.concat(F.lit("["), text, F.lit("]"))) == 1
        whole = F.concat(F.lit(f'{{"{_WHOLE}":'), text, F.lit("}"))
        return F.when(F.is_valid_utf8(text) & alone, F.from_json(whole, asked, options))

    def decoded(self, looked: Column) -> Column:
        return _made(looked.getField(_WHOLE), self.schema)

    def why(self, raw: Column, looked: Column) -> Column:
        whole = looked.getField(_WHOLE)
        return F.coalesce(
            F.when(looked.isNull() & ~F.is_valid_utf8(raw.cast("string")), F.lit("is not UTF-8")),
            F.when(looked.isNull(), F.lit("is not one JSON value")),
            F.when(looked.getField(_CORRUPT).isNotNull(), F.lit("does not fit its schema")),
            F.when(whole.isNull(), F.lit("is not a JSON object")),
            *(_unlike(whole, field) for field in self.schema.fields if _guessed(field.dataType)),
        )


def _unlike(whole: Column, field: StructField) -> Column:
    kind = field.dataType.simpleString()[:100]
    return F.when(_spoilt(whole.getField(field.name), field.dataType), F.lit(f"has no {kind} in {field.name!r}"))


def _asked(kind: DataType) -> DataType:
    """The type to ask ``from_json`` for: strings instead of dates and times."""
    if isinstance(kind, StructType):
        return StructType([StructField(f.name, _asked(f.dataType)) for f in kind.fields])
    if isinstance(kind, ArrayType):
        return ArrayType(_asked(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(StringType(), _asked(kind.valueType))
    return StringType() if type(kind) in _TIMES else kind


def _made(value: Column, kind: DataType) -> Column:
    """The value of type ``kind`` from the result of ``from_json``."""
    if _asked(kind) == kind:
        return value
    if isinstance(kind, StructType):
        fields = [_made(value.getField(f.name), f.dataType).alias(f.name) for f in kind.fields]
        return F.when(value.isNotNull(), F.struct(*fields))
    if isinstance(kind, ArrayType):
        element = kind.elementType
        return F.transform(value, lambda item: _made(item, element))
    if isinstance(kind, MapType):
        inner = kind.valueType
        return F.transform_values(value, lambda _, item: _made(item, inner))
    return value.try_cast(kind)


def _guessed(kind: DataType) -> bool:
    """Whether ``from_json`` can return another value than the text has."""
    if isinstance(kind, StructType):
        return any(_guessed(field.dataType) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return _guessed(kind.elementType)
    return isinstance(kind, (MapType, *_FLOATS, *_TIMES))


def _spoilt(value: Column, kind: DataType) -> Column:
    """Whether ``from_json`` returned another value than the text has: true or false, never null."""
    if not _guessed(kind):
        return F.lit(False)
    if isinstance(kind, StructType):
        return reduce(or_, (_spoilt(value.getField(f.name), f.dataType) for f in kind.fields))
    if isinstance(kind, ArrayType):
        element = kind.elementType
        return F.coalesce(F.exists(value, lambda item: _spoilt(item, element)), F.lit(False))
    if isinstance(kind, MapType):
        inner = kind.valueType
        keys = F.map_keys(value)
        repeated = F.size(F.array_distinct(keys)) < F.size(keys)
        return F.coalesce(repeated | F.exists(F.map_values(value), lambda item: _spoilt(item, inner)), F.lit(False))
    if isinstance(kind, _FLOATS):
        return F.coalesce(F.abs(value) == F.lit(float("inf")), F.lit(False))
    fits = value.rlike(_TIMES[type(kind)]) & value.try_cast(kind).isNotNull()
    return value.isNotNull() & ~fits


def _check(side: str, path: str, kind: DataType) -> None:
    """Raise InvalidSpec unless every type can be read without silent loss."""
    if isinstance(kind, StructType):
        _check_fields(side, path, kind)
    elif isinstance(kind, ArrayType):
        _check(side, path, kind.elementType)
    elif isinstance(kind, MapType) and kind.keyType == StringType():
        _check(side, path, kind.valueType)
    elif kind != StringType() and type(kind) not in (*_LEAVES, *_FLOATS, *_TIMES):
        raise _invalid(
            side, f"{path} has type {kind.simpleString()}, which cannot be read from JSON; use another type, or STRING"
        )


def _check_fields(side: str, path: str, struct: StructType) -> None:
    names = [field.name.lower() for field in struct.fields]
    if not names:
        raise _invalid(side, f"{path or 'it'} has no fields; name at least one")
    for field in struct.fields:
        inner = f"{path}.{field.name}".lstrip(".")
        if names.count(field.name.lower()) > 1:
            raise _invalid(side, f"{inner} occurs twice; name each field once")
        if not field.nullable or field.metadata:
            raise _invalid(
                side,
                f"{inner} has more than a name and a type, but a missing field is null; remove NOT NULL or COMMENT",
            )
        _check(side, inner, field.dataType)


def _invalid(side: str, what: str) -> InvalidSpec:
    return InvalidSpec(f"topic.{side}: the schema cannot be used: {what}", field=f"topic.{side}")
