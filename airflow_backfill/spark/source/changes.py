"""The changes of a range of epochs, in one shape for every source format, and the proof that they are complete.

Rows have the source's columns, ``_change_type`` (insert, update_preimage, update_postimage, delete) and
``_commit_version``. Apply rows only after ``prove`` has compared the counts read with the counts that the log states.
An epoch without changes is proven like any other: from its actions, never from an empty frame.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_backfill.core.errors import ChangesIncomplete
from airflow_backfill.core.values.commit import CommitId
from airflow_backfill.spark.session.redaction import shown
from airflow_backfill.spark.transform.transform import quoted

CHANGE_TYPE = "_change_type"
EPOCH = "_commit_version"
INSERT, POST_IMAGE, PRE_IMAGE, DELETE = "insert", "update_postimage", "update_preimage", "delete"
COMES = (INSERT, POST_IMAGE)
"""Changes that add a row."""
GOES = (DELETE, PRE_IMAGE)
"""Changes that remove a row."""


@dataclass(frozen=True)
class Changes:
    """The changes of a range of epochs, not read yet, and the counts that a complete read has."""

    frame: DataFrame
    how: Sequence[str]
    """How they are read and why, as lines for the log."""
    keys_only: bool
    """A removed row may have only its key."""
    moved: bool
    """A row may be removed and added unchanged, because its file was rewritten."""
    only_adds: bool
    """Every commit only adds rows."""
    expected: Sequence[Expected]
    distrusting: Callable[[frozenset[int]], Changes]
    """The same changes, with the files of these epochs read instead of their change data."""
    bytes: int = 0
    """About as many are read."""
    identity: Callable[[], str] = str
    """Identifies the files that are read: the same files give the same changes."""
    last: CommitId | None = None
    """The commit of the last epoch, as it was read; None if that is unknown."""

    def counted(self) -> dict[tuple[int, str], int]:
        """Number of rows by epoch and type. Reads the rows, but none of their other columns."""
        rows = self.frame.groupBy(EPOCH, CHANGE_TYPE).count().collect()
        return {(row[EPOCH], row[CHANGE_TYPE]): row["count"] for row in rows}

    def prove(self, read: Mapping[tuple[int, str], int]) -> frozenset[int]:
        """Call ``prove`` with the counts ``read`` (by epoch and type). Returns the epochs to distrust."""
        return prove(self.expected, read)


@dataclass(frozen=True, slots=True)
class Expected:
    """Row counts of one epoch according to the log. None: the log does not say."""

    epoch: int
    growth: int | None
    """Rows added minus rows removed."""
    comes: int | None
    goes: int | None
    images: bool
    """Updates come from change data: every post-image has its pre-image."""


def prove(expected: Sequence[Expected], read: Mapping[tuple[int, str], int]) -> frozenset[int]:
    """Raise ChangesIncomplete unless the counts that were read (by epoch and type) match ``expected``.

    Returns the epochs whose change data is incomplete (some writers leave out pre-images): read their data files
    instead.
    """
    lacking = set()
    by_epoch: dict[int, dict[str, int]] = {}
    for (epoch, kind), count in read.items():
        by_epoch.setdefault(epoch, {})[kind] = count
    for one in expected:
        wrong = _wrong(one, by_epoch.get(one.epoch, {}))
        if wrong is not None and one.images:
            lacking.add(one.epoch)
        elif wrong is not None:
            what, must, did = wrong
            raise ChangesIncomplete(
                f"epoch {one.epoch} of the source: {what} must be {must} according to its commit, but {did} were read; "
                "rows would be lost or doubled; clear the task once; if the error returns, check how the source is "
                "written",
                epoch=one.epoch,
                what=what,
                expected=must,
                read=did,
            )
    odd = sorted(by_epoch.keys() - {one.epoch for one in expected})
    if odd:
        raise ChangesIncomplete(
            f"changes of epoch {odd[0]} were read, which is outside the requested range; the source's log is "
            "inconsistent; clear the task once; if the error returns, check how the source is written",
            epoch=odd[0],
        )
    return frozenset(lacking)


def _wrong(one: Expected, read: Mapping[str, int]) -> tuple[str, int, int] | None:
    comes = sum(read.get(kind, 0) for kind in COMES)
    goes = sum(read.get(kind, 0) for kind in GOES)
    counts = [
        ("rows gained", one.growth, comes - goes),
        ("rows added", one.comes, comes),
        ("rows removed", one.goes, goes),
    ]
    if one.images:
        counts.append(("pre-images", read.get(POST_IMAGE, 0), read.get(PRE_IMAGE, 0)))
    return next(((what, must, did) for what, must, did in counts if must is not None and must != did), None)


def sample_of(rows: DataFrame, limit: int) -> list[dict[str, str | None]]:
    """The first keys, with their epochs if there are any, as an error shows them. Spark makes the texts: Python knows
    no year above 9999, and may be in another time zone.
    """
    found = rows.limit(limit).select(*(F.col(quoted(name)).cast("string").alias(name) for name in rows.columns))
    return [dict(map(_shown, row.asDict().items())) for row in found.collect()]


def _shown(named: tuple[str, str | None]) -> tuple[str, str | None]:
    name, value = named
    return ("epoch", value) if name == EPOCH else (name, shown(value))
