"""The last change of every target key in a range of epochs, staged once, counted, and checked.

Order is (epoch, rank): within one epoch a row that goes (a delete, a pre-image) ranks below a row that comes (an
insert, a post-image), so that a delete and an insert of one key are its new state, whatever order they are read in.
A row that leaves the filter, or takes another key, is a delete of the key it had.

Of a key that identifies one row, rows come and go in turns, and before the first that comes the target has none. What
contradicts this is marked here, and looked into by ``repeated_keys``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Protocol

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from airflow_backfill.core.errors import KeyNull
from airflow_backfill.spark.session.failure import history_lost
from airflow_backfill.spark.session.staged import release, stage
from airflow_backfill.spark.source.changes import CHANGE_TYPE, COMES, EPOCH, INSERT, PRE_IMAGE, Changes, shown
from airflow_backfill.spark.transform.literal import literal, ordinal
from airflow_backfill.spark.transform.transform import Transform, any_missing, quoted

OP = "_backfill_op"
UPSERT = "upsert"
DELETE = "delete"
BESIDE = "beside"
"""Comes whatever rows of its key the target has: they go by a ``DELETE`` of their own."""
NEW = "_backfill_new"
"""Whether the target has no row of this key, if the key identifies one row."""
PLACE = "_backfill_place"
REPEATED = "_backfill_repeated"
"""Whether another row of this key comes, or goes, without one that goes, or comes, between the two."""

RECOVER = "table-backfill recover"
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
    repeated: int = 0
    """Rows that are ``REPEATED``."""
    new: int = 0
    """Keys that are ``NEW``."""
    new_bounds: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Their ``bounds``."""
    beside: bool = False
    """Whether some rows come by ``BESIDE``."""

    def rows(self) -> DataFrame:
        """What may be appended if ``only_inserts``: a row that the filter keeps out deletes what is not there."""
        return self.frame.where(F.col(OP) == UPSERT).drop(OP)

    def replacing(self, gone: DataFrame, come: DataFrame) -> NetChanges:
        """The changes, but for the keys in ``gone``: of these all rows of the target go, and ``come`` is what comes."""
        columns = [F.col(quoted(c)) for c in come.columns]
        key = gone.columns
        absent = [
            F.col(quoted(c)) if c in key else F.lit(None).cast(come.schema[c].dataType).alias(c) for c in come.columns
        ]
        rest = self.frame.join(gone, key, "left_anti").select(*columns, OP)
        frame = rest.union(gone.select(*absent, F.lit(DELETE).alias(OP)))
        frame = frame.union(come.select(*columns, F.lit(BESIDE).alias(OP)))
        return replace(self, frame=frame, only_inserts=False, more=True, repeated=0, beside=True)

    @property
    def empty(self) -> bool:
        """Whether there is nothing to write."""
        return not self.more and self.upserts == 0 and (self.only_inserts or self.deletes == 0)

    def with_new(self, rows: DataFrame) -> NetChanges:
        """The changes, and rows of the target whose keys are neither among the changes nor in the target."""
        frame = self.frame.union(rows.withColumn(OP, F.lit(UPSERT)))
        unchanged = self.upserts + self.deletes == 0 and not self.beside
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


def net_changes(
    changes: Changes, transform: Transform, key: Sequence[str], part: Part | None = None, *, named: bool = False
) -> NetChanges:
    """The net of ``changes`` for the target, whose key columns are ``key``; if ``named``, of rows that have a key.

    Rows without a key are not in the target: those that came and went again are passed over. Raises KeyNull if one is
    left, ChangesIncomplete if what was read is not what the commits say, HistoryLost if a file is gone. Nothing has
    been written then.
    """
    placed = _placed(changes, transform, key)
    chosen = placed if part is None else placed.where(part.holds(key))
    staged = stage(chosen.where(~_nameless(key)) if named else chosen)
    try:
        groups = _summary(staged, key, transform.schema)
        whole = part is None and not named
        of_all = {(g[EPOCH], g[CHANGE_TYPE]): g["rows"] for g in groups} if whole else changes.counted()
        distrusted = changes.prove(of_all)
        if not distrusted and not any(g["nameless"] for g in groups):
            return _net(staged, changes, transform, key, groups)
        if not distrusted:
            _check_nameless(staged, key, groups)
            named = True
    except (PySparkException, Py4JJavaError) as error:
        release(staged)
        raise history_lost(error) or error from None
    except BaseException:
        release(staged)
        raise
    release(staged)
    return net_changes(changes.distrusting(distrusted) if distrusted else changes, transform, key, part, named=named)


def _nameless(key: Sequence[str]) -> Column:
    return any_missing(F.col(quoted(k)) for k in key)


def _placed(changes: Changes, transform: Transform, key: Sequence[str]) -> DataFrame:
    """Every change as a row of the target, with its place among the changes of its key: 1 is the last."""
    comes, before = F.col(CHANGE_TYPE).isin(*COMES), F.col(CHANGE_TYPE) == PRE_IMAGE
    # Of a row that goes only the key counts, and of a row outside the filter: an expression may be undefined for it.
    whole = (comes | before if changes.moved else comes) & transform.passes()
    values = [
        F.expr(o.sql).alias(o.name) if o.name in key else F.when(whole, F.expr(o.sql)).alias(o.name)
        for o in transform.outputs
    ]
    # Of a row that goes, the difference of files may know no more than the key, and nothing about the filter.
    known = before if changes.keys_only else ~comes
    absent = comes | (known & ~transform.passes())
    rows = changes.frame.select(*values, whole.alias(_WHOLE), absent.alias(NEW), F.col(CHANGE_TYPE), F.col(EPOCH))
    of_key = Window.partitionBy(*(F.col(quoted(k)) for k in key))
    newest = of_key.orderBy(F.col(EPOCH).desc(), comes.desc())
    place = F.row_number().over(newest)
    repeated = F.coalesce(F.lag(comes).over(newest) == comes, F.lit(False))
    new = F.min_by(NEW, F.struct(F.col(EPOCH), comes)).over(of_key)
    op = F.when(comes & F.col(_WHOLE), F.lit(UPSERT)).otherwise(F.lit(DELETE))
    if changes.moved and all(_comparable(field.dataType) for field in transform.schema.fields):
        row = F.struct(*(F.col(quoted(o.name)) for o in transform.outputs))
        first = newest.rowsBetween(Window.currentRow, Window.unboundedFollowing)
        oldest = F.last(F.when(before & F.col(_WHOLE), row)).over(first)
        same = oldest.isNotNull() & oldest.eqNullSafe(row)
        op = F.when((op == UPSERT) & same, F.lit(None)).otherwise(op)
    return rows.withColumns({PLACE: place, REPEATED: repeated, OP: op, NEW: new}).drop(_WHOLE)


def _comparable(kind: DataType) -> bool:
    """Whether equal values are the same value: maps and variants have no equality, collations one of their own."""
    return not any(word in kind.simpleString() for word in ("map<", "variant", "collate"))


def _summary(staged: DataFrame, key: Sequence[str], schema: StructType) -> list[Row]:
    """One pass over the staged rows: what was read, what it comes to, and where the keys lie."""
    last = F.col(PLACE) == 1
    new = last & F.col(NEW)
    bounds = [
        extreme(F.when(which, ordinal(F.col(quoted(k)), schema[k].dataType))).alias(f"{of}{name}_{i}")
        for i, k in enumerate(key)
        for of, which in (("", last), ("new_", new))
        for name, extreme in (("low", F.min), ("high", F.max))
    ]
    grouped = staged.groupBy(EPOCH, CHANGE_TYPE).agg(
        F.count(F.lit(1)).alias("rows"),
        F.count_if(last & (F.col(OP) == UPSERT)).alias("upserts"),
        F.count_if(last & (F.col(OP) == DELETE)).alias("deletes"),
        F.count_if(~last).alias("older"),
        F.count_if(F.col(REPEATED)).alias("repeated"),
        F.count_if(new).alias("new"),
        F.count_if(_nameless(key)).alias("nameless"),
        *bounds,
    )
    return grouped.collect()


def _check_nameless(staged: DataFrame, key: Sequence[str], groups: Sequence[Row]) -> None:
    """Raise KeyNull unless as many rows without a key went as came: before the changes there was none."""
    came = sum(g["nameless"] for g in groups if g[CHANGE_TYPE] in COMES)
    went = sum(g["nameless"] for g in groups) - came
    if came == went:
        return
    columns = [F.col(quoted(k)) for k in key]
    found = staged.where(_nameless(key)).select(*columns, EPOCH).limit(_SAMPLE).collect()
    sample = [shown(row) for row in found]
    raise KeyNull(
        f"{max(came, went)} changed rows have no key, for example {sample[0]}: give them one in the source, or delete "
        "them there, and clear the task; if that was done later than this round ends, with larger rounds (round_rows, "
        f"round_bytes), so that one of them holds both; where that does not help, say at which epoch the target is to "
        f"stand ({RECOVER} --epoch), verify, and repair what differs",
        count=max(came, went),
        sample=sample,
    )


def _net(
    staged: DataFrame, changes: Changes, transform: Transform, key: Sequence[str], groups: Sequence[Row]
) -> NetChanges:
    columns = [F.col(quoted(o.name)) for o in transform.outputs]
    return NetChanges(
        frame=staged.where((F.col(PLACE) == 1) & F.col(OP).isNotNull()).select(*columns, OP),
        upserts=sum(g["upserts"] for g in groups),
        deletes=sum(g["deletes"] for g in groups),
        changes=sum(g["rows"] for g in groups),
        only_inserts=changes.only_adds and all(g[CHANGE_TYPE] == INSERT and not g["older"] for g in groups),
        bounds=_bounds(groups, "", key, transform.schema),
        staged=staged,
        repeated=sum(g["repeated"] for g in groups),
        new=sum(g["new"] for g in groups),
        new_bounds=_bounds(groups, "new_", key, transform.schema),
    )


def _bounds(groups: Sequence[Row], of: str, key: Sequence[str], schema: StructType) -> dict[str, tuple[str, str]]:
    bounds = {}
    for i, column in enumerate(key):
        lows = [g[f"{of}low_{i}"] for g in groups if g[f"{of}low_{i}"] is not None]
        highs = [g[f"{of}high_{i}"] for g in groups if g[f"{of}high_{i}"] is not None]
        kind = schema[column].dataType
        low, high = (literal(min(lows), kind), literal(max(highs), kind)) if lows else (None, None)
        if low is not None and high is not None:
            bounds[column] = (low, high)
    return bounds
