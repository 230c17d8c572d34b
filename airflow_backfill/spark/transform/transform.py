"""What becomes of a source row: the columns of the target, and whether the row is in it.

The expressions are checked by Spark's own parser and analyser before anything is read, and there is one code path
for all phases: what ``Transform.apply`` does is what the snapshot, the log, the upstream and the verification do.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    IntegerType,
    LongType,
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
"""Columns whose names begin so are ours while rows are on their way."""

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
    """One column of the target. ``source`` is the source column that it repeats unchanged, if it does."""

    name: str
    sql: str
    source: str | None


@dataclass(frozen=True)
class Transform:
    """A checked ``select`` and ``where``."""

    outputs: tuple[Output, ...]
    where: str | None
    schema: StructType
    """What the target's rows look like. Names and types only: no metadata of the source's columns."""
    source_schema: StructType
    uses: frozenset[str]
    """The source's columns that the rows are made of, or chosen by."""

    def apply(self, rows: DataFrame) -> DataFrame:
        """The target's rows for these source rows."""
        kept = rows if self.where is None else rows.where(self.where)
        return kept.select(*(F.expr(o.sql).alias(o.name) for o in self.outputs))

    def passes(self) -> Column:
        """Whether a source row is in the target: true or false, never null."""
        return F.lit(True) if self.where is None else F.coalesce(F.expr(self.where), F.lit(False))

    def target_key(self, key: Sequence[str]) -> tuple[str, ...]:
        """The columns of the target that hold the source's key; KeyInvalid unless all of it survives unchanged."""
        return tuple(self._target_column(column) for column in key)

    def _target_column(self, column: str) -> str:
        field = next((f for f in self.source_schema.fields if f.name.lower() == column.lower()), None)
        if field is None:
            names = ", ".join(self.source_schema.fieldNames()[:50])
            raise KeyInvalid(f"the source has no key column {column!r} (it has: {names})", column=column)
        if not _orders(field.dataType):
            kind = field.dataType.simpleString()
            raise KeyInvalid(
                f"key column {column!r} is of type {kind}, which identifies no row; name columns of whole "
                "numbers, text, dates or times",
                column=column,
                type=kind,
            )
        for output in self.outputs:
            if output.source == field.name:
                return output.name
        raise KeyInvalid(f"select loses key column {column!r}: name it without changing its value", column=column)


def parse(
    spark: SparkSession,
    source_schema: StructType,
    select: Sequence[str] | None = None,
    where: str | None = None,
    functions: Mapping[str, str] | None = None,
) -> Transform:
    """The transform that these expressions say, or InvalidExpression with the expression and what is wrong.

    ``functions`` are the user's own, with their versions, beside the built-in ones that are allowed. Reads nothing.
    """
    _check_case(spark, source_schema.fieldNames())
    for field in source_schema.fields:
        _check_name(field.name, f"column {field.name!r} of the source")
    checker = Checker(spark, source_schema, ALLOWED | make_functions(spark, functions or {}))
    columns = [quoted(f.name) for f in source_schema.fields] if select is None else list(select)
    if not columns:
        raise InvalidExpression("select names no column", expression="")
    outputs: list[Output] = []
    fields: list[StructField] = []
    uses: set[str] = set()
    for sql in columns:
        found = checker.column(sql)
        _check_name(found.field.name, sql)
        if isinstance(found.field.dataType, _NOT_STORED):
            kind = found.field.dataType.simpleString()
            raise InvalidExpression(f"{sql!r} is of type {kind}, which a table cannot hold; cast it", expression=sql)
        if any(found.field.name.lower() == f.name.lower() for f in fields):
            raise InvalidExpression(
                f"two columns of select are named {found.field.name!r}; give one another name with AS", expression=sql
            )
        outputs.append(Output(found.field.name, sql, found.source))
        fields.append(found.field)
        uses |= found.uses
    if where is not None:
        uses |= checker.condition(where)
    return Transform(tuple(outputs), where, StructType(fields), source_schema, frozenset(uses))


def schema_of(text: str) -> StructType:
    """The schema that a table's log says; UnsupportedTable if this Spark cannot read it."""
    try:
        return StructType.fromJson(json.loads(text))
    except Exception as error:
        said = str(error).strip().partition("\n")[0][:300] or type(error).__name__
        raise UnsupportedTable(
            f"Spark cannot read the table's schema ({said}): a column has a type that this version of Spark does not "
            "know, or the log is damaged; build from a table without that column"
        ) from None


def some_columns(schema: StructType, names: Sequence[str] | None) -> StructType:
    """The part of a schema that these names are of; all of it for None."""
    return schema if names is None else StructType([field for field in schema.fields if field.name in names])


def any_missing(columns: Iterable[Column]) -> Column:
    """Whether one of the columns is null."""
    missing = F.lit(False)
    for column in columns:
        missing = missing | column.isNull()
    return missing


def quoted(name: str) -> str:
    """``name`` as SQL reads it: one identifier, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def _check_case(spark: SparkSession, names: Sequence[str]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other != name and spark.conf.get("spark.sql.caseSensitive") == "false":
            raise UnsupportedTable(
                f"the source has the columns {other!r} and {name!r}, which Spark cannot tell apart: rename one of them"
            )


def _check_name(name: str, expression: str) -> None:
    if name.lower() in RESERVED or name.lower().startswith(OWN):
        raise InvalidExpression(
            f"{expression}: the name {name!r} is reserved; give it another name with AS",
            expression=expression,
            name=name,
        )
    if not name.strip() or len(name) > 255 or any(ord(c) < 32 for c in name):
        raise InvalidExpression(
            f"{expression}: {name[:300]!r} is not a name for a column; give it another one with AS",
            expression=expression,
        )


def _orders(kind: DataType) -> bool:
    """Whether values of this type are equal exactly when they are the same, so that they can identify rows."""
    if isinstance(kind, StringType):
        return kind.simpleString() == "string"
    return isinstance(kind, _KEYS)
