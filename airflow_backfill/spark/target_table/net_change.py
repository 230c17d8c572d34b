"""The last change of every target key in a range of epochs, staged once, counted, and checked.

Changes are ordered by (epoch, rank). Within an epoch, a removed row (delete, pre-image) ranks below an added row
(insert, post-image), so a delete and an insert of one key give the inserted row, in whatever order they are read. A row
that leaves the filter or changes its key is a delete of the old key.

If a key identifies one row, its rows are added and removed in turns, and the target has no row before the first is
added. Changes that contradict this are marked here and checked by ``repeated_keys``.
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

from airflow_backfill.core.errors import ChangesIncomplete, KeyNull
from airflow_backfill.core.values.digest import Digest
from airflow_backfill.spark.digest.digest import HASHES, sums
from airflow_backfill.spark.session.failure import history_lost
from airflow_backfill.spark.session.staged import release, stage
from airflow_backfill.spark.source.changes import CHANGE_TYPE, COMES, EPOCH, INSERT, PRE_IMAGE, Changes, sample_of
from airflow_backfill.spark.source.digest import balance, changed_digests
from airflow_backfill.spark.target_table.buckets import Buckets
from airflow_backfill.spark.target_table.split_epochs import SplitEpochs
from airflow_backfill.spark.transform.literal import literal, ordinal
from airflow_backfill.spark.transform.transform import Transform, any_missing, quoted

OP = "_backfill_op"
UPSERT = "upsert"
DELETE = "delete"
BESIDE = "beside"
"""An added row that never matches rows of the target: a separate ``DELETE`` removes those of its key."""
NEW = "_backfill_new"
"""True if the target must have no row of this key, provided that the key identifies one row."""
PLACE = "_backfill_place"
REPEATED = "_backfill_repeated"
"""True if two rows of a key are added (or removed) in succession, without a removal (or addition) in between."""

_WHOLE = "_backfill_whole"
_SAMPLE = 5


class Part(Protocol):
    """A subset of the keys."""

    def holds(self, key: Sequence[str]) -> Column:
        """Whether the key in these columns is in the subset."""


@dataclass(frozen=True)
class NetChanges:
    """The net change of a range of epochs. ``frame`` has one row per key, with the target's columns, ``OP``, and for a
    source that is a table ``NEW``.

    Spark holds the rows until ``release``; use it as a context manager.
    """

    frame: DataFrame
    upserts: int
    deletes: int
    changes: int
    """Number of change rows that were read."""
    only_inserts: bool
    """Every commit only adds rows, only inserts were read, and no key occurs twice: the rows may be appended."""
    bounds: Mapping[str, tuple[str, str]]
    """Minimum and maximum of each key column, as SQL literals of exactly the column's type."""
    staged: DataFrame
    more: bool = False
    """Whether ``frame`` has rows in addition to the changes."""
    repeated: int = 0
    """Number of ``REPEATED`` rows."""
    new: int = 0
    """Number of ``NEW`` keys."""
    new_bounds: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """The ``bounds`` of the ``NEW`` keys."""
    beside: bool = False
    """Whether some rows are ``BESIDE``."""
    known: bool = False
    """Whether the target has a row of every ``UPSERT`` that is not ``NEW``."""
    digest: Digest | None = None
    """The digest of the target's rows that come, minus that of those that go; None if it was not asked for, or if
    removed rows were read without all their columns.
    """

    @property
    def only_matches(self) -> bool:
        """Whether the target has a row of every ``UPSERT``, so that nothing is inserted."""
        return self.known and not self.new

    def rows(self) -> DataFrame:
        """The rows to append if ``only_inserts``. Deletes are left out: the target has no row of those keys."""
        return self.frame.where(F.col(OP) == UPSERT).drop(OP, NEW)

    def replacing(self, gone: DataFrame, come: DataFrame) -> NetChanges:
        """The changes, but for the keys in ``gone`` all rows of the target are removed and the rows ``come`` added."""
        columns = [F.col(quoted(c)) for c in come.columns]
        key = gone.columns
        absent = [
            F.col(quoted(c)) if c in key else F.lit(None).cast(come.schema[c].dataType).alias(c) for c in come.columns
        ]
        rest = self.frame.join(gone, key, "left_anti").select(*columns, OP, NEW)
        frame = rest.union(gone.select(*absent, F.lit(DELETE), F.lit(False)))
        frame = frame.union(come.select(*columns, F.lit(BESIDE), F.lit(False)))
        return replace(self, frame=frame, only_inserts=False, more=True, repeated=0, beside=True, known=False)

    @property
    def empty(self) -> bool:
        """Whether there is nothing to write."""
        return not self.more and self.upserts == 0 and (self.only_inserts or self.deletes == 0)

    def with_new(self, rows: DataFrame) -> NetChanges:
        """The changes, plus ``rows`` (columns of the target) whose keys are neither in the changes nor the target."""
        frame = self.frame.union(rows.withColumns({OP: F.lit(UPSERT), NEW: F.lit(False)}))
        unchanged = self.upserts + self.deletes == 0 and not self.beside
        return replace(self, frame=frame, only_inserts=self.only_inserts or unchanged, more=True, known=False)

    def release(self) -> None:
        """Free the staged rows."""
        release(self.staged)

    def __enter__(self) -> NetChanges:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def net_changes(
    changes: Changes,
    transform: Transform,
    key: Sequence[str],
    part: Part | None = None,
    *,
    named: bool = False,
    digested: bool = False,
    split: SplitEpochs | None = None,
) -> NetChanges:
    """The net change for the target, whose key columns are ``key``. With ``named``, rows without a key are left out.
    With ``digested``, it has a ``digest``. ``split`` counts the buckets of an epoch once, or stores them.

    The target has no rows without a key, so such a row that was added and removed again is ignored. Raises KeyNull if
    one remains, ChangesIncomplete if the counts read differ from the log, HistoryLost if a file is gone. Writes
    nothing.
    """
    rows = _rows(changes, transform, key, digested and not changes.keys_only)
    kept = split.bucket(rows, changes, key, part) if split is not None and isinstance(part, Buckets) else None
    placed = _placed(rows if kept is None else kept.rows, changes, transform, key)
    chosen = placed if part is None or kept is not None else placed.where(part.holds(key))
    staged = stage(chosen.where(~_nameless(key)) if named else chosen)
    try:
        groups = _summary(staged, key, transform.schema)
        read = {(g[EPOCH], g[CHANGE_TYPE]): g["rows"] for g in groups}
        if kept is not None and not named and read != kept.own:
            raise ChangesIncomplete(f"{kept.own} rows were counted, but {read} were read")
        if part is None and not named:
            of_all = read
        else:
            of_all = changes.counted() if kept is None else dict(kept.whole)
        distrusted = changes.prove(of_all)
        if not distrusted and not any(g["nameless"] for g in groups):
            return _net(staged, changes, transform, key, groups)
        if not distrusted:
            _check_nameless(staged, key, groups)
            named = True
    except (PySparkException, Py4JJavaError, ChangesIncomplete) as error:
        release(staged)
        if kept is None:
            raise history_lost(error) or error from None
        kept.discard(error)
        return net_changes(changes, transform, key, part, digested=digested)
    except BaseException:
        release(staged)
        raise
    release(staged)
    changes = changes.distrusting(distrusted) if distrusted else changes
    return net_changes(changes, transform, key, part, named=named, digested=digested, split=split)


def _nameless(key: Sequence[str]) -> Column:
    return any_missing(F.col(quoted(k)) for k in key)


def _rows(changes: Changes, transform: Transform, key: Sequence[str], digested: bool) -> DataFrame:
    """Every change as a row of the target."""
    comes, before = F.col(CHANGE_TYPE).isin(*COMES), F.col(CHANGE_TYPE) == PRE_IMAGE
    # Of a removed row, and of a row outside the filter, only the key counts: an expression may fail on the rest.
    whole = (comes | before if changes.moved else comes) & transform.passes()
    values = [
        F.expr(o.sql).alias(o.name) if o.name in key else F.when(whole, F.expr(o.sql)).alias(o.name)
        for o in transform.outputs
    ]
    # The difference of files may have only the key of a removed row, so the filter cannot be evaluated on it.
    known = before if changes.keys_only else ~comes
    absent = comes | (known & ~transform.passes())
    hashes = changed_digests(transform) if digested else []
    own = [whole.alias(_WHOLE), absent.alias(NEW), F.col(CHANGE_TYPE), F.col(EPOCH)]
    return changes.frame.select(*values, *own, *hashes)


def _placed(rows: DataFrame, changes: Changes, transform: Transform, key: Sequence[str]) -> DataFrame:
    """The rows of ``changes``, each with its place among the changes of its key (1: the last)."""
    comes, before = F.col(CHANGE_TYPE).isin(*COMES), F.col(CHANGE_TYPE) == PRE_IMAGE
    newest = Window.partitionBy(*(F.col(quoted(k)) for k in key)).orderBy(F.col(EPOCH).desc(), comes.desc())
    # In the same order as the other functions: Spark computes them in one pass.
    all_of_key = newest.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    place = F.row_number().over(newest)
    repeated = F.coalesce(F.lag(comes).over(newest) == comes, F.lit(False))
    new = F.last(NEW).over(all_of_key)
    op = F.when(comes & F.col(_WHOLE), F.lit(UPSERT)).otherwise(F.lit(DELETE))
    if changes.moved and all(_comparable(field.dataType) for field in transform.schema.fields):
        row = F.struct(*(F.col(quoted(o.name)) for o in transform.outputs))
        first = newest.rowsBetween(Window.currentRow, Window.unboundedFollowing)
        oldest = F.last(F.when(before & F.col(_WHOLE), row)).over(first)
        same = oldest.isNotNull() & oldest.eqNullSafe(row)
        op = F.when((op == UPSERT) & same, F.lit(None)).otherwise(op)
    return rows.withColumns({PLACE: place, REPEATED: repeated, OP: op, NEW: new}).drop(_WHOLE)


def _comparable(kind: DataType) -> bool:
    """Whether equal values are identical: maps and variants have no equality, and collations have their own."""
    return not any(word in kind.simpleString() for word in ("map<", "variant", "collate"))


def _summary(staged: DataFrame, key: Sequence[str], schema: StructType) -> list[Row]:
    """Counts by epoch and type, and bounds of the keys, in one pass over the staged rows."""
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
        *(sums() if HASHES[0] in staged.columns else []),
    )
    return grouped.collect()


def _check_nameless(staged: DataFrame, key: Sequence[str], groups: Sequence[Row]) -> None:
    """Raise KeyNull unless as many rows without a key were removed as added: before the changes there was none."""
    came = sum(g["nameless"] for g in groups if g[CHANGE_TYPE] in COMES)
    went = sum(g["nameless"] for g in groups) - came
    if came == went:
        return
    columns = [F.col(quoted(k)) for k in key]
    sample = sample_of(staged.where(_nameless(key)).select(*columns, EPOCH), _SAMPLE)
    raise KeyNull(
        f"{max(came, went)} changed rows have no key, for example {sample[0]}; changes are applied by key, so they "
        "would be lost; give them a key in the source, or delete them there, then clear the task; if the correction is "
        "later than this round ends, clear the task with larger rounds (round_rows, round_bytes), so that one round "
        "has both; if that does not help, run `table-backfill recover TARGET --epoch N --why REASON` with the epoch "
        "of the correction, verify, and repair the keys that differ",
        count=max(came, went),
        sample=sample,
    )


def _net(
    staged: DataFrame, changes: Changes, transform: Transform, key: Sequence[str], groups: Sequence[Row]
) -> NetChanges:
    columns = [F.col(quoted(o.name)) for o in transform.outputs]
    return NetChanges(
        frame=staged.where((F.col(PLACE) == 1) & F.col(OP).isNotNull()).select(*columns, OP, NEW),
        upserts=sum(g["upserts"] for g in groups),
        deletes=sum(g["deletes"] for g in groups),
        changes=sum(g["rows"] for g in groups),
        only_inserts=changes.only_adds and all(g[CHANGE_TYPE] == INSERT and not g["older"] for g in groups),
        bounds=key_bounds(groups, "", key, transform.schema),
        staged=staged,
        repeated=sum(g["repeated"] for g in groups),
        new=sum(g["new"] for g in groups),
        new_bounds=key_bounds(groups, "new_", key, transform.schema),
        digest=balance(groups) if HASHES[0] in staged.columns else None,
        # With the keys of removed rows only, it is not known whether they passed the filter.
        known=transform.where is None or not changes.keys_only,
    )


def key_bounds(groups: Sequence[Row], of: str, key: Sequence[str], schema: StructType) -> dict[str, tuple[str, str]]:
    """Minimum and maximum of each key column whose values have literals. ``groups``: the columns ``{of}low_{i}`` and
    ``{of}high_{i}`` of each.
    """
    found = {}
    for i, column in enumerate(key):
        kind = schema[column].dataType
        ends = [(g[f"{of}low_{i}"], g[f"{of}high_{i}"]) for g in groups if g[f"{of}low_{i}"] is not None]
        # Python sorts texts that are no UTF-8 in another order than Spark. They have no literal.
        if ends and all(literal(value, kind) is not None for pair in ends for value in pair):
            low, high = literal(min(low for low, _ in ends), kind), literal(max(high for _, high in ends), kind)
            assert low is not None and high is not None
            found[column] = (low, high)
    return found
