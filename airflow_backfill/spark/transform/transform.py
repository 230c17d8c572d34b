"""The user's ``select`` and ``where``: from rows of the source to rows of the target.

Spark's parser and analyser check the expressions before anything is read. All phases and the verification use the same
``Transform.apply``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    YearMonthIntervalType,
)

from airflow_backfill.core.errors import InvalidExpression, KeyInvalid, UnsupportedTable
from airflow_backfill.spark.transform.expression import Checker
from airflow_backfill.spark.transform.functions import ALLOWED
from airflow_backfill.spark.transform.user_functions import make_functions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RESERVED = ("_change_type", "_commit_version", "_commit_timestamp")
"""Columns of a change feed. No column of a source or target may have these names."""
OWN = "_backfill_"
"""Prefix of this package's own columns in intermediate rows."""
_RENAME = (
    "rename it there (ALTER TABLE ... RENAME COLUMN, which needs the table property delta.columnMapping.mode = 'name')"
)

_KEYS = (
    BinaryType,
    BooleanType,
    ByteType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    ShortType,
    TimestampNTZType,
    TimestampType,
)
_NOT_STORED = (NullType, DayTimeIntervalType, YearMonthIntervalType)


@dataclass(frozen=True, slots=True)
class Output:
    """One column of the target. ``source`` is the source column that it copies unchanged; None if it does not."""

    name: str
    sql: str
    source: str | None


@dataclass(frozen=True)
class Transform:
    """A checked ``select`` and ``where``."""

    outputs: tuple[Output, ...]
    where: str | None
    schema: StructType
    """The target's columns: names and types only, no metadata of the source's columns."""
    source_schema: StructType
    uses: frozenset[str]
    """The source's columns that ``select`` or ``where`` reads."""

    def apply(self, rows: DataFrame) -> DataFrame:
        """The target's rows for these source rows."""
        kept = rows if self.where is None else rows.where(self.where)
        return kept.select(*(F.expr(o.sql).alias(o.name) for o in self.outputs))

    def passes(self) -> Column:
        """Whether ``where`` keeps a source row: true or false, never null."""
        return F.lit(True) if self.where is None else F.coalesce(F.expr(self.where), F.lit(False))

    def target_key(self, key: Sequence[str]) -> tuple[str, ...]:
        """The target's columns that hold the source's key; KeyInvalid unless select copies every key column."""
        return tuple(self._target_column(column) for column in key)

    def _target_column(self, column: str) -> str:
        field = next((f for f in self.source_schema.fields if f.name.lower() == column.lower()), None)
        if field is None:
            names = ", ".join(self.source_schema.fieldNames()[:50])
            raise KeyInvalid(
                f"key: the source has no column {column!r} to identify rows by; name one of its columns: {names}",
                column=column,
            )
        if not _orders(field.dataType):
            kind = field.dataType.simpleString()
            raise KeyInvalid(
                f"key: column {column!r} has type {kind}, whose equal values can be different values, so it cannot "
                "identify a row; name columns of whole numbers, text, dates or times",
                column=column,
                type=kind,
            )
        for output in self.outputs:
            if output.source == field.name:
                return output.name
        raise KeyInvalid(
            f"select: key column {column!r} is missing or changed, so rows of the target could not be identified; "
            "select it unchanged",
            column=column,
        )


def parse(
    spark: SparkSession,
    source_schema: StructType,
    select: Sequence[str] | None = None,
    where: str | None = None,
    functions: Mapping[str, str] | None = None,
) -> Transform:
    """The checked transform of these expressions. Raises InvalidExpression with the expression and the reason.

    ``functions`` are the user's own (versions by name), allowed in addition to ``ALLOWED``. Reads nothing.
    """
    _check_case(spark, source_schema.fieldNames())
    for field in source_schema.fields:
        _check_name(field.name, f"column {field.name!r} of the source", _RENAME)
    checker = Checker(spark, source_schema, ALLOWED | make_functions(spark, functions or {}))
    if select is None:
        columns = [(quoted(found.field.name), found) for found in checker.columns()]
    else:
        columns = [(sql, checker.column(sql)) for sql in select]
    if not columns:
        raise InvalidExpression("select is empty: name at least one column, or leave it out", expression="")
    outputs: list[Output] = []
    fields: list[StructField] = []
    uses: set[str] = set()
    for sql, found in columns:
        _check_name(found.field.name, sql, "give it another name with AS")
        if not _stored(found.field.dataType):
            kind = found.field.dataType.simpleString()
            raise InvalidExpression(f"{sql!r} has type {kind}, which a table cannot store; cast it", expression=sql)
        if any(found.field.name.lower() == f.name.lower() for f in fields):
            raise InvalidExpression(
                f"two columns of select are named {found.field.name!r}; give one another name with AS", expression=sql
            )
        for part in types_in(found.field.dataType):
            if isinstance(part, StructType):
                _check_fields(part, sql)
        outputs.append(Output(found.field.name, sql, found.source))
        fields.append(found.field)
        uses |= found.uses
    if where is not None:
        uses |= checker.condition(where)
    return Transform(tuple(outputs), where, StructType(fields), source_schema, frozenset(uses))


def schema_of(text: str) -> StructType:
    """The schema from a table's log (JSON); UnsupportedTable if this version of Spark cannot read it."""
    try:
        return StructType.fromJson(json.loads(text))
    except Exception as error:
        said = str(error).strip().partition("\n")[0][:300] or type(error).__name__
        raise UnsupportedTable(
            f"Spark cannot read the table's schema ({said}): a column has a type that this version of Spark does not "
            "know, or the log is damaged; build from a table without that column"
        ) from None


def some_columns(schema: StructType, names: Sequence[str] | None) -> StructType:
    """The schema's columns with these names; None: all columns."""
    return schema if names is None else StructType([field for field in schema.fields if field.name in names])


def any_missing(columns: Iterable[Column]) -> Column:
    """Whether one of the columns is null."""
    missing = F.lit(False)
    for column in columns:
        missing = missing | column.isNull()
    return missing


def quoted(name: str) -> str:
    """``name`` as one SQL identifier, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def types_in(kind: DataType) -> Iterator[DataType]:
    """The type and, at any depth, the types in it."""
    yield kind
    if isinstance(kind, StructType):
        inner = [field.dataType for field in kind.fields]
    elif isinstance(kind, MapType):
        inner = [kind.keyType, kind.valueType]
    else:
        inner = [kind.elementType] if isinstance(kind, ArrayType) else []
    for one in inner:
        yield from types_in(one)


def _stored(kind: DataType) -> bool:
    """Whether Delta stores values of this type."""
    parts = list(types_in(kind))
    collections = (part for part in parts if isinstance(part, (ArrayType, MapType)))
    of_void = any(isinstance(one, NullType) for each in collections for one in types_in(each))
    collated = any(isinstance(part, StringType) and part.simpleString() != "string" for part in parts)
    return not (isinstance(kind, _NOT_STORED) or of_void or collated)


def _check_fields(struct: StructType, sql: str) -> None:
    """InvalidExpression if the struct has two fields of one name: Delta takes no notice of case."""
    twins = _twins(struct.fieldNames())
    if twins is not None:
        raise InvalidExpression(
            f"{sql!r} has a struct with two fields named {twins[1]!r}, which a table cannot store; name them with "
            "named_struct('one', …, 'two', …)",
            expression=sql,
        )


def _check_case(spark: SparkSession, names: Sequence[str]) -> None:
    twins = _twins(names)
    if twins is not None and spark.conf.get("spark.sql.caseSensitive") == "false":
        raise UnsupportedTable(
            f"the source has the columns {twins[0]!r} and {twins[1]!r}, which differ only in case, so Spark cannot "
            "tell them apart; rename one of them"
        )


def _twins(names: Iterable[str]) -> tuple[str, str] | None:
    """The first two names that are one name for Spark, which takes no notice of case."""
    known: dict[str, str] = {}
    for name in names:
        if name.lower() in known:
            return known[name.lower()], name
        known[name.lower()] = name
    return None


def _check_name(name: str, expression: str, way_out: str) -> None:
    if name.lower() in RESERVED or name.lower().startswith(OWN):
        raise InvalidExpression(
            f"{expression}: the column name {name!r} is reserved for changes and for what is added to them; {way_out}",
            expression=expression,
            name=name,
        )
    if not name.strip() or len(name) > 255 or any(ord(c) < 32 for c in name):
        raise InvalidExpression(
            f"{expression}: {name[:300]!r} is not a valid column name (empty, longer than 255 characters, or with "
            f"control characters); {way_out}",
            expression=expression,
        )


def _orders(kind: DataType) -> bool:
    """Whether equal values of this type are identical, so that they can identify rows."""
    if isinstance(kind, StringType):
        return kind.simpleString() == "string"
    return isinstance(kind, _KEYS)
