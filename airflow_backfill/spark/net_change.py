"""The last change of every target key in a range of epochs, staged once, counted, and checked.

Order is (epoch, rank): within one epoch a row that goes (a delete, a pre-image) ranks below a row that comes (an
insert, a post-image), so that a delete and an insert of one key are its new state, whatever order they are read in.
A row that leaves the filter, or takes another key, is a delete of the key it had.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Protocol

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from airflow_backfill.core.errors import DuplicateKey, KeyNull
from airflow_backfill.spark.changes import CHANGE_TYPE, EPOCH, Changes
from airflow_backfill.spark.expected import COMES, INSERT, PRE_IMAGE
from airflow_backfill.spark.failure import history_lost
from airflow_backfill.spark.literal import literal, ordinal
from airflow_backfill.spark.staged import release, stage
from airflow_backfill.spark.transform import Transform, any_missing, quoted

OP = "_backfill_op"
UPSERT = "upsert"
DELETE = "delete"

_PLACE = "_backfill_place"
_TWIN = "_backfill_twin"
_WHOLE = "_backfill_whole"
_SAMPLE = 5


@dataclass(frozen=True, slots=True)
class Buckets:
    """Part of the keys: those whose hash, of ``of`` classes, is in ``start <= class < stop``."""

    start: int
    stop: int
    of: int

    def holds(self, key: Sequence[str]) -> Column:
        place = F.pmod(F.xxhash64(*(F.col(quoted(k)) for k in key)), F.lit(self.of))
        return (place >= self.start) & (place < self.stop)


class Part(Protocol):
    """Some of the keys."""

    def holds(self, key: Sequence[str]) -> Column:
        """Whether the key in these columns is one of them."""


@dataclass(frozen=True)
class NetChanges:
    """What a range of epochs comes to. ``frame`` has the target's columns and ``OP``, one row a key.

    The rows are held by Spark until ``release``; use it as a context manager.
    """

    frame: DataFrame
    upserts: int
    deletes: int
    changes: int
    """Rows of the feed that were read for it."""
    only_inserts: bool
    """Every commit only adds, nothing but inserts was read, and no key twice: the rows may be appended."""
    bounds: Mapping[str, tuple[str, str]]
    """Least and greatest value of the key columns, as SQL literals of exactly the column's type."""
    staged: DataFrame
    more: bool = False
    """Whether there are rows beside the changes."""

    def rows(self) -> DataFrame:
        """What may be appended if ``only_inserts``: a row that the filter keeps out deletes what is not there."""
        return self.frame.where(F.col(OP) == UPSERT).drop(OP)

    @property
    def empty(self) -> bool:
        """Whether there is nothing to write."""
        return not self.more and self.upserts == 0 and (self.only_inserts or self.deletes == 0)

    def with_new(self, rows: DataFrame) -> NetChanges:
        """The changes, and rows of the target whose keys are neither among the changes nor in the target."""
        frame = self.frame.union(rows.withColumn(OP, F.lit(UPSERT)))
        unchanged = self.upserts + self.deletes == 0
        return replace(self, frame=frame, only_inserts=self.only_inserts or unchanged, more=True)

    def release(self) -> None:
        """Let Spark forget the staged rows."""
        release(self.staged)

    def __enter__(self) -> NetChanges:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def net_changes(changes: Changes, transform: Transform, key: Sequence[str], part: Part | None = None) -> NetChanges:
    """The net of ``changes`` for the target, whose key columns are ``key``.

    Raises DuplicateKey if an epoch brings two rows of one key, KeyNull if a row has no key, ChangesIncomplete if what
    was read is not what the commits say, HistoryLost if a file is gone. Nothing has been written then.
    """
    placed = _placed(changes, transform, key)
    chosen = placed if part is None else placed.where(part.holds(key))
    staged = stage(chosen)
    try:
        groups = _summary(staged, key, transform.schema)
        of_all = {(g[EPOCH], g[CHANGE_TYPE]): g["rows"] for g in groups} if part is None else changes.counted()
        distrusted = changes.prove(of_all)
        if not distrusted:
            _check_keys(staged, key, groups)
            return _net(staged, changes, transform, key, groups)
    except (PySparkException, Py4JJavaError) as error:
        release(staged)
        raise history_lost(error) or error from None
    except BaseException:
        release(staged)
        raise
    release(staged)
    return net_changes(changes.distrusting(distrusted), transform, key, part)


def _placed(changes: Changes, transform: Transform, key: Sequence[str]) -> DataFrame:
    """Every change as a row of the target, with its place among the changes of its key: 1 is the last."""
    comes, before = F.col(CHANGE_TYPE).isin(*COMES), F.col(CHANGE_TYPE) == PRE_IMAGE
    # Of a row that goes only the key counts, and of a row outside the filter: an expression may be undefined for it.
    whole = (comes | before if changes.moved else comes) & transform.passes()
    values = [
        F.expr(o.sql).alias(o.name) if o.name in key else F.when(whole, F.expr(o.sql)).alias(o.name)
        for o in transform.outputs
    ]
    rows = changes.frame.select(*values, whole.alias(_WHOLE), F.col(CHANGE_TYPE), F.col(EPOCH))
    of_key = Window.partitionBy(*(F.col(quoted(k)) for k in key))
    newest = of_key.orderBy(F.col(EPOCH).desc(), comes.desc())
    place = F.row_number().over(newest)
    # What comes is first among the changes of an epoch: another one before it comes, too.
    twin = comes & (F.lag(EPOCH).over(newest) == F.col(EPOCH))
    op = F.when(comes & F.col(_WHOLE), F.lit(UPSERT)).otherwise(F.lit(DELETE))
    if changes.moved and all(_comparable(field.dataType) for field in transform.schema.fields):
        row = F.struct(*(F.col(quoted(o.name)) for o in transform.outputs))
        first = newest.rowsBetween(Window.currentRow, Window.unboundedFollowing)
        oldest = F.last(F.when(before & F.col(_WHOLE), row)).over(first)
        same = oldest.isNotNull() & oldest.eqNullSafe(row)
        op = F.when((op == UPSERT) & same, F.lit(None)).otherwise(op)
    return rows.withColumns({_PLACE: place, _TWIN: F.coalesce(twin, F.lit(False)), OP: op}).drop(_WHOLE)


def _comparable(kind: DataType) -> bool:
    """Whether equal values are the same value: maps and variants have no equality, collations one of their own."""
    return not any(word in kind.simpleString() for word in ("map<", "variant", "collate"))


def _summary(staged: DataFrame, key: Sequence[str], schema: StructType) -> list[Row]:
    """One pass over the staged rows: what was read, what it comes to, and where the keys lie."""
    last = F.col(_PLACE) == 1
    bounds = [
        extreme(F.when(last, ordinal(F.col(quoted(k)), schema[k].dataType))).alias(f"{name}_{i}")
        for i, k in enumerate(key)
        for name, extreme in (("low", F.min), ("high", F.max))
    ]
    nameless = any_missing(F.col(quoted(k)) for k in key)
    grouped = staged.groupBy(EPOCH, CHANGE_TYPE).agg(
        F.count(F.lit(1)).alias("rows"),
        F.count_if(last & (F.col(OP) == UPSERT)).alias("upserts"),
        F.count_if(last & (F.col(OP) == DELETE)).alias("deletes"),
        F.count_if(~last).alias("older"),
        F.count_if(F.col(_TWIN)).alias("twins"),
        F.count_if(nameless).alias("nameless"),
        *bounds,
    )
    return grouped.collect()


def _check_keys(staged: DataFrame, key: Sequence[str], groups: Sequence[Row]) -> None:
    columns = [F.col(quoted(k)) for k in key]
    nameless = sum(g["nameless"] for g in groups)
    if nameless:
        found = staged.where(any_missing(columns)).select(*columns, EPOCH).limit(_SAMPLE).collect()
        sample = [_shown(row) for row in found]
        raise KeyNull(f"{nameless} changed rows have no key, for example {sample[0]}", count=nameless, sample=sample)
    twins = sum(g["twins"] for g in groups)
    if twins:
        found = staged.where(_TWIN).select(*columns, EPOCH).limit(_SAMPLE).collect()
        sample = [_shown(row) for row in found]
        raise DuplicateKey(
            f"{twins} rows repeat a key that the same epoch brings already, for example {sample[0]}",
            count=twins,
            sample=sample,
        )


def _shown(row: Row) -> dict[str, Any]:
    shown = {name: None if value is None else str(value) for name, value in row.asDict().items()}
    return {"epoch" if name == EPOCH else name: value for name, value in shown.items()}


def _net(
    staged: DataFrame, changes: Changes, transform: Transform, key: Sequence[str], groups: Sequence[Row]
) -> NetChanges:
    bounds = {}
    for i, column in enumerate(key):
        lows = [g[f"low_{i}"] for g in groups if g[f"low_{i}"] is not None]
        highs = [g[f"high_{i}"] for g in groups if g[f"high_{i}"] is not None]
        kind = transform.schema[column].dataType
        low, high = (literal(min(lows), kind), literal(max(highs), kind)) if lows else (None, None)
        if low is not None and high is not None:
            bounds[column] = (low, high)
    columns = [F.col(quoted(o.name)) for o in transform.outputs]
    return NetChanges(
        frame=staged.where((F.col(_PLACE) == 1) & F.col(OP).isNotNull()).select(*columns, OP),
        upserts=sum(g["upserts"] for g in groups),
        deletes=sum(g["deletes"] for g in groups),
        changes=sum(g["rows"] for g in groups),
        only_inserts=changes.only_adds and all(g[CHANGE_TYPE] == INSERT and not g["older"] for g in groups),
        bounds=bounds,
        staged=staged,
    )
