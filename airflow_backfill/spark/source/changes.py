"""The changes of a range of epochs, as every format of a source gives them, and the proof that they are all of them.

Rows have the source's columns, ``_change_type`` (insert, update_preimage, update_postimage, delete) and
``_commit_version``. Nobody may apply the rows before ``prove`` has compared what was read with what must have been. An
epoch that yields nothing is proven like any other: from its actions, never from an empty frame.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, Row

from airflow_backfill.core.errors import ChangesIncomplete

CHANGE_TYPE = "_change_type"
EPOCH = "_commit_version"
INSERT, POST_IMAGE, PRE_IMAGE, DELETE = "insert", "update_postimage", "update_preimage", "delete"
COMES = (INSERT, POST_IMAGE)
"""Changes that bring a row."""
GOES = (DELETE, PRE_IMAGE)
"""Changes that take one away."""


@dataclass(frozen=True)
class Changes:
    """The changes of a range of epochs, not read yet, and what reading them must give."""

    frame: DataFrame
    how: Sequence[str]
    """How they are read, and why, for people."""
    keys_only: bool
    """Of a row that goes no more than its key may be known."""
    moved: bool
    """Some rows that go and come again may be unchanged: their files were rewritten."""
    only_adds: bool
    """No commit does anything to rows but add files of them."""
    expected: Sequence[Expected]
    distrusting: Callable[[frozenset[int]], Changes]
    """The same changes, with the files of these epochs read instead of their change data."""

    def counted(self) -> dict[tuple[int, str], int]:
        """How many rows there are of each epoch and type; reads them, but none of their columns."""
        rows = self.frame.groupBy(EPOCH, CHANGE_TYPE).count().collect()
        return {(row[EPOCH], row[CHANGE_TYPE]): row["count"] for row in rows}

    def prove(self, read: Mapping[tuple[int, str], int]) -> frozenset[int]:
        """Raise ChangesIncomplete unless ``read``, counts by epoch and type, is all; returns epochs to distrust."""
        return prove(self.expected, read)


@dataclass(frozen=True, slots=True)
class Expected:
    """What must be read as the changes of one epoch. None: the log does not say."""

    epoch: int
    growth: int | None
    """Rows that come, less rows that go."""
    comes: int | None
    goes: int | None
    images: bool
    """Updates come from change data: every post-image has its pre-image."""


def prove(expected: Sequence[Expected], read: Mapping[tuple[int, str], int]) -> frozenset[int]:
    """Raise ChangesIncomplete unless the counts that were read (by epoch and type) are what they must be.

    Returns the epochs whose change data is not all of the change (some writers leave pre-images out): their data
    files have to be read instead.
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
                f"epoch {one.epoch}: {what} must be {must} by its commit, {did} were read",
                epoch=one.epoch,
                what=what,
                expected=must,
                read=did,
            )
    odd = sorted(by_epoch.keys() - {one.epoch for one in expected})
    if odd:
        raise ChangesIncomplete(f"changes of epoch {odd[0]} were read, which was not asked for", epoch=odd[0])
    return frozenset(lacking)


def _wrong(one: Expected, read: Mapping[str, int]) -> tuple[str, int, int] | None:
    comes = sum(read.get(kind, 0) for kind in COMES)
    goes = sum(read.get(kind, 0) for kind in GOES)
    counts = [
        ("rows gained", one.growth, comes - goes),
        ("rows that come", one.comes, comes),
        ("rows that go", one.goes, goes),
    ]
    if one.images:
        counts.append(("pre-images", read.get(POST_IMAGE, 0), read.get(PRE_IMAGE, 0)))
    return next(((what, must, did) for what, must, did in counts if must is not None and must != did), None)


def shown(row: Row) -> dict[str, Any]:
    """A key, and its epoch, as errors name them."""
    texts = {name: None if value is None else str(value) for name, value in row.asDict().items()}
    return {"epoch" if name == EPOCH else name: value for name, value in texts.items()}
