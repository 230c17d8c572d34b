"""Checks one SQL expression of ``select`` or ``where``.

In two steps. First the text as written, in Spark's parse tree: no subquery, window or parameter, known functions only.
Then the resolved expression: only the source's columns, one value per row, deterministic.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BooleanType, DataType, MapType, StructField, StructType

from airflow_backfill.core.errors import InvalidExpression, UnsupportedTable
from airflow_backfill.core.values.options import IDENTIFIER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CLOCK = "depends on the time or the user of the run, so a retry could give another value; use columns of the source"
_ROW_BY_ROW = "an expression sees one row of the source"
_REFUSED = {
    r".*Subquery|Exists|ListQuery": f"has a subquery; {_ROW_BY_ROW}",
    r".*Window.*": f"has a window function; {_ROW_BY_ROW}",
    r".*Generator|MultiAlias": "returns several rows or columns; an expression returns one value for each row",
    r".*Star": "has a *; name the columns one by one",
    r".*Parameter": "has a parameter; write its value",
    r".*UnresolvedIdentifier": "has an IDENTIFIER clause; write the name",
    r"VariableReference": "names a variable of a session, which differs between runs; write its value",
    r"AggregateExpression": f"has an aggregate function; {_ROW_BY_ROW}",
    r"Current.*|LocalTimestamp|Now": _CLOCK,
    r"CallMethodViaReflection": "calls a Java method, which is not allowed; use Spark's functions",
}
# The parser replaces typed literals such as TIMESTAMP 'now' by the current time, so the tree does not show them.
_TIME_TYPES = ("date", "timestamp", "timestamp_ntz")
_TIME_WORDS = re.compile(r"""['"]\s*(now|today|tomorrow|yesterday)\b[^'"]*['"]""", re.IGNORECASE)
_MAX_SQL = 100_000


@dataclass(frozen=True, slots=True)
class CheckedColumn:
    """A column of the target. ``source`` is the source column that it copies unchanged; None if it does not."""

    field: StructField
    source: str | None
    uses: frozenset[str]
    """The source's columns that it reads."""


class Checker:
    """Checks expressions over rows of one schema, with one set of functions."""

    def __init__(self, spark: SparkSession, schema: StructType, functions: frozenset[str]) -> None:
        self._parser = spark._jsparkSession.sessionState().sqlParser()
        try:
            self._rows = spark.createDataFrame([], schema)
        except (PySparkException, Py4JError) as error:
            raise UnsupportedTable(
                f"Spark cannot represent the source's columns ({_first_line(error)}), so the source cannot be read; "
                "build from a table without that column"
            ) from None
        self._fields = schema.fields
        self._plain = {f"[{field.name}]": field for field in schema.fields if IDENTIFIER.match(field.name)}
        names = schema.fieldNames()
        self._names = {name.lower(): name for name in names} | {name: name for name in names}
        self._functions = functions

    def columns(self) -> list[CheckedColumn]:
        """The source's columns as they are."""
        return [_copy(field) for field in self._fields]

    def column(self, sql: str) -> CheckedColumn:
        """The column that the expression selects; InvalidExpression if it is not allowed."""
        written = self._written(sql)
        if written[0]["class"] not in ("Alias", "UnresolvedAttribute"):
            raise _invalid(sql, "needs a name: write it as `expression AS name`")
        if len(written) == 1 and (named := self._plain.get(written[0]["nameParts"])) is not None:
            return _copy(named)  # Spark would look at all columns for each one, which takes seconds for hundreds
        field, tree = self._resolved(sql)
        while tree[0]["class"] == "Alias":
            tree = tree[1:]
        repeats = len(tree) == 1 and tree[0]["class"] == "AttributeReference"
        return CheckedColumn(field, self._source(tree[0]) if repeats else None, self._used(tree))

    def condition(self, sql: str) -> frozenset[str]:
        """The source's columns that the condition reads; InvalidExpression unless it is a boolean for each row."""
        if self._written(sql)[0]["class"] == "Alias":
            raise _invalid(sql, "has a name, but where is a condition; remove `AS name`")
        field, tree = self._resolved(sql)
        if not isinstance(field.dataType, BooleanType):
            raise _invalid(sql, f"has type {field.dataType.simpleString()}; where must be a boolean condition")
        return self._used(tree)

    def _used(self, tree: list[dict[str, Any]]) -> frozenset[str]:
        return frozenset(self._source(node) for node in tree if node["class"] == "AttributeReference")

    def _source(self, node: dict[str, Any]) -> str:
        """The column's name in the source: Spark's tree has it as the expression writes it, in any case."""
        name: str = node["name"]
        return self._names.get(name) or self._names[name.lower()]

    def _written(self, sql: str) -> list[dict[str, Any]]:
        if not sql.strip() or len(sql) > _MAX_SQL:
            raise _invalid(sql, f"is empty or longer than {_MAX_SQL} characters; write one SQL expression")
        try:
            tree = _nodes(self._parser.parseExpression(sql))
        except PySparkException as error:
            raise _invalid(sql, "is not one SQL expression: " + _first_line(error)) from None
        _refuse(sql, tree)
        for name in _called(tree):
            if name.lower() not in self._functions:
                raise _invalid(
                    sql,
                    f"calls {name}, which is not an allowed function (not deterministic, not row by row, or unknown); "
                    "use another function",
                    function=name,
                )
        return tree

    def _resolved(self, sql: str) -> tuple[StructField, list[dict[str, Any]]]:
        try:
            selected = self._rows.select(F.expr(sql))
            resolved = selected._jdf.queryExecution().analyzed().expressions().head()
            tree = _nodes(resolved)
        except PySparkException as error:
            raise _invalid(sql, "does not fit the source: " + _first_line(error)) from None
        _refuse(sql, tree)
        if not resolved.deterministic():
            raise _invalid(sql, "does not always return the same value for the same row; retries need the same value")
        field = selected.schema[0]
        return StructField(field.name, _bare(field.dataType), field.nullable), tree


def _copy(field: StructField) -> CheckedColumn:
    return CheckedColumn(
        StructField(field.name, _bare(field.dataType), field.nullable), field.name, frozenset([field.name])
    )


def _bare(kind: DataType) -> DataType:
    """The type without the source table's column metadata: mapping ids, generators, CHAR lengths."""
    if isinstance(kind, StructType):
        return StructType([StructField(f.name, _bare(f.dataType), f.nullable) for f in kind.fields])
    if isinstance(kind, ArrayType):
        return ArrayType(_bare(kind.elementType), kind.containsNull)
    if isinstance(kind, MapType):
        return MapType(_bare(kind.keyType), _bare(kind.valueType), kind.valueContainsNull)
    return kind


def _nodes(expression: Any) -> list[dict[str, Any]]:
    """The tree in pre-order, each node with the plain name of its class."""
    try:
        nodes: list[dict[str, Any]] = json.loads(expression.toJSON())
    except Py4JError as error:
        raise InvalidExpression(
            f"Spark cannot show the tree of an expression, so it cannot be checked: {_first_line(error)}; "
            "write it with other functions"
        ) from None
    for node in nodes:
        node["class"] = node["class"].rsplit(".", 1)[-1]
    return nodes


def _refuse(sql: str, tree: list[dict[str, Any]]) -> None:
    for node in tree:
        for name, reason in _REFUSED.items():
            if re.fullmatch(name, node["class"]):
                raise _invalid(sql, reason)
        if node["class"] == "Literal" and node["dataType"] in _TIME_TYPES and _TIME_WORDS.search(sql):
            raise _invalid(sql, _CLOCK)


def _called(tree: list[dict[str, Any]]) -> Iterator[str]:
    return (node["nameParts"].strip("[]") for node in tree if node["class"] == "UnresolvedFunction")


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:300]


def _invalid(sql: str, reason: str, **data: Any) -> InvalidExpression:
    return InvalidExpression(f"{sql[:200]!r} {reason}", expression=sql[:2000], reason=reason, **data)
