"""Whether one SQL expression may decide what a target holds.

Two looks: at what the user wrote (Spark's parse tree: no subquery, window or parameter, known functions only),
before anything is resolved; then at what Spark makes of it (resolved against the source's columns alone, one value
per row, deterministic).
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

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CLOCK = "depends on when or by whom it is run"
_REFUSED = {
    r".*Subquery|Exists|ListQuery": "holds a subquery",
    r".*Window.*": "holds a window function",
    r".*Generator|MultiAlias": "makes several columns or rows of one",
    r".*Star": "names columns with *; name them one by one",
    r".*Parameter": "holds a parameter",
    r".*UnresolvedIdentifier": "holds an identifier that is not written out",
    r"VariableReference": "names a variable of a session",
    r"AggregateExpression": "sums over rows",
    r"Current.*|LocalTimestamp|Now": _CLOCK,
    r"CallMethodViaReflection": "calls a method of Java",
}
# Typed literals such as TIMESTAMP 'now' are read off the clock by the parser, so no tree shows them.
_TIME_TYPES = ("date", "timestamp", "timestamp_ntz")
_TIME_WORDS = re.compile(r"""['"]\s*(now|today|tomorrow|yesterday)\b[^'"]*['"]""", re.IGNORECASE)
_MAX_SQL = 100_000


@dataclass(frozen=True, slots=True)
class CheckedColumn:
    """A column as the target will have it. ``source`` is the source column it repeats unchanged, if it does."""

    field: StructField
    source: str | None
    uses: frozenset[str]
    """The source's columns that it is made of."""


class Checker:
    """Checks expressions over rows of one schema, with one set of functions."""

    def __init__(self, spark: SparkSession, schema: StructType, functions: frozenset[str]) -> None:
        self._parser = spark._jsparkSession.sessionState().sqlParser()
        try:
            self._rows = spark.createDataFrame([], schema)
        except (PySparkException, Py4JError) as error:
            raise UnsupportedTable(
                f"Spark cannot hold the source's columns ({_first_line(error)}); build from a table without that column"
            ) from None
        self._functions = functions

    def column(self, sql: str) -> CheckedColumn:
        """What the expression selects, or InvalidExpression."""
        written = self._written(sql)
        if written[0]["class"] not in ("Alias", "UnresolvedAttribute"):
            raise _invalid(sql, "needs a name: write it as `expression AS name`")
        field, tree = self._resolved(sql)
        while tree[0]["class"] == "Alias":
            tree = tree[1:]
        repeats = len(tree) == 1 and tree[0]["class"] == "AttributeReference"
        return CheckedColumn(field, tree[0]["name"] if repeats else None, _used(tree))

    def condition(self, sql: str) -> frozenset[str]:
        """The columns that it looks at. Raises InvalidExpression unless it says of each row whether it is in."""
        if self._written(sql)[0]["class"] == "Alias":
            raise _invalid(sql, "has a name; a condition has none")
        field, tree = self._resolved(sql)
        if not isinstance(field.dataType, BooleanType):
            raise _invalid(sql, f"is of type {field.dataType.simpleString()}, a condition is a boolean")
        return _used(tree)

    def _written(self, sql: str) -> list[dict[str, Any]]:
        if not sql.strip() or len(sql) > _MAX_SQL:
            raise _invalid(sql, f"is empty or longer than {_MAX_SQL} characters")
        try:
            tree = _nodes(self._parser.parseExpression(sql))
        except PySparkException as error:
            raise _invalid(sql, "is not one SQL expression: " + _first_line(error)) from None
        _refuse(sql, tree)
        for name in _called(tree):
            if name.lower() not in self._functions:
                raise _invalid(sql, f"calls {name}, which is not among the functions that are allowed", function=name)
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
            raise _invalid(sql, "does not always give the same value for the same row")
        field = selected.schema[0]
        return StructField(field.name, _bare(field.dataType), field.nullable), tree


def _bare(kind: DataType) -> DataType:
    """The type without what the source's table says about its columns: mapping ids, generators, CHAR lengths."""
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
        raise InvalidExpression(f"an expression cannot be looked into: {_first_line(error)}") from None
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


def _used(tree: list[dict[str, Any]]) -> frozenset[str]:
    return frozenset(node["name"] for node in tree if node["class"] == "AttributeReference")


def _called(tree: list[dict[str, Any]]) -> Iterator[str]:
    return (node["nameParts"].strip("[]") for node in tree if node["class"] == "UnresolvedFunction")


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:300]


def _invalid(sql: str, reason: str, **data: Any) -> InvalidExpression:
    return InvalidExpression(f"{sql[:200]!r} {reason}", expression=sql[:2000], reason=reason, **data)
