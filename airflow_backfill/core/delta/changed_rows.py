"""How many rows a commit changes: its own metrics, limited by the row counts of its files.

Metrics count changed rows. Files count all their rows: for a commit that rewrites files or replaces their deletion
vectors, that includes every unchanged row twice. Without any count, the number is estimated from sizes, and never 0.
"""

from __future__ import annotations

from airflow_backfill.core.values.commit import ROW_BYTES, Commit, FileTotals

_CHANGED = (
    "numTargetRowsInserted",
    "numTargetRowsUpdated",
    "numTargetRowsDeleted",
    "numUpdatedRows",
    "numDeletedRows",
)


def changed_rows(commit: Commit) -> int:
    """Changed rows of ``commit``; an estimate where nothing is counted."""
    if not commit.data_change:
        return 0
    told, before, after = _told(commit), commit.removed.live, commit.added.live
    if told is None:
        return max(_of_files(commit), 1)
    if before is not None and after is not None and commit.added.files + commit.removed.files:
        told = min(max(told, abs(after - before)), after + before)
    return max(told, 1)


def _told(commit: Commit) -> int | None:
    """Changed rows by the commit's metrics; None if these do not count changes. A partial overwrite counts rows
    deleted, rows written, and rows only copied.
    """
    metrics = commit.metrics
    if not any(name in metrics for name in _CHANGED):
        return None
    told = sum(metrics.get(name, 0) for name in _CHANGED)
    if "numOutputRows" in metrics and "numCopiedRows" in metrics:
        told += max(metrics["numOutputRows"] - metrics["numCopiedRows"], 0)
    # The commit has change data, but the metrics do not count it.
    return told or (None if commit.changed.files else 0)


def _of_files(commit: Commit) -> int:
    """Changed rows by the files: all rows of added files are added, all rows of removed files deleted."""
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
    """Rows of files without a count, estimated from their sizes."""
    return totals.files + totals.bytes // max(row_bytes, 1)
