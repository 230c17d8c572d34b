"""How many rows a commit changes: what it says of itself, within what its files allow.

Writers count the rows that they change. Files count those that live in them: of a commit that rewrites files, or that
replaces their deletion vectors, that is every row beside the changed ones, twice. Where nothing is counted, sizes tell:
0 is never a guess.
"""

from __future__ import annotations

from airflow_backfill.core.values.commit import Commit, FileTotals

ROW_BYTES = 100
"""What a row is taken to need in a file that does not say how many it has."""
_CHANGED = (
    "numTargetRowsInserted",
    "numTargetRowsUpdated",
    "numTargetRowsDeleted",
    "numUpdatedRows",
    "numDeletedRows",
)


def changed_rows(commit: Commit) -> int:
    """An upper bound where nobody counted."""
    if not commit.data_change:
        return 0
    told, before, after = _told(commit), commit.removed.live, commit.added.live
    if told is None:
        return max(_of_files(commit), 1)
    if before is not None and after is not None and commit.added.files + commit.removed.files:
        told = min(max(told, abs(after - before)), after + before)
    return max(told, 1)


def _told(commit: Commit) -> int | None:
    """What the commit's metrics say, None if they do not count changes. An overwrite of some rows says how many went,
    how many it wrote, and how many of those it only copied.
    """
    metrics = commit.metrics
    if not any(name in metrics for name in _CHANGED):
        return None
    told = sum(metrics.get(name, 0) for name in _CHANGED)
    if "numOutputRows" in metrics and "numCopiedRows" in metrics:
        told += max(metrics["numOutputRows"] - metrics["numCopiedRows"], 0)
    # Change data that nobody counted is there all the same.
    return told or (None if commit.changed.files else 0)


def _of_files(commit: Commit) -> int:
    """What the files say: all rows of new ones came, all rows of those that are gone went."""
    added, removed, changed = commit.added, commit.removed, commit.changed
    if changed.files:
        return max(changed.rows, changed.files) if changed.rows is not None else _guessed(changed, ROW_BYTES)
    hidden = added.deleted_rows - removed.deleted_rows
    if removed.files and added.files and added.rows is not None and added.rows == removed.rows and hidden > 0:
        return hidden
    before, after = removed.live, added.live
    if after is None:
        after = commit.metrics.get("numOutputRows") or _guessed(added, ROW_BYTES)
    if before is None:
        before = _guessed(removed, min(added.bytes // after, ROW_BYTES) if added.bytes and after else ROW_BYTES)
    return after + before


def _guessed(totals: FileTotals, row_bytes: int) -> int:
    """The rows of files that do not say how many they have, by their sizes."""
    return totals.files + totals.bytes // max(row_bytes, 1)
