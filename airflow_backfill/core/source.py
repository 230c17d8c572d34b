"""What is seen of the source's log, and what in it stops a build.

Epochs are watched, not read: a commit becomes a few numbers. A commit that changes the table in a way the
plan does not allow carries its error along; the error is raised when work would reach that epoch, because an
earlier epoch is still right. A source that was replaced stops everything at once.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from airflow_backfill.core.commit import Commit, TableMetadata
from airflow_backfill.core.errors import (
    BackfillError,
    FeedOff,
    HistoryLost,
    NotAppendOnly,
    SchemaChanged,
    SourceReplaced,
)
from airflow_backfill.core.plan import Plan
from airflow_backfill.core.round_size import RoundSize

FEED = "delta.enableChangeDataFeed"


@dataclass(frozen=True, slots=True)
class Epoch:
    """One committed version of the source, as rounds are planned by it."""

    number: int
    at: int
    rows: int
    """Changed rows, estimated from the log's counts (an upper bound where a count is missing: 0 is never a
    guess).
    """
    bytes: int
    """What has to be read for its changes."""
    stop: BackfillError | None = None

    @property
    def quiet(self) -> bool:
        """Whether it changes no row."""
        return self.rows == 0 and self.bytes == 0


def has_feed(metadata: TableMetadata) -> bool:
    """Whether a table writes its changes down as long as this metadata holds."""
    return metadata.configuration.get(FEED, "false").lower() == "true"


def fitting(epochs: Sequence[Epoch], size: RoundSize) -> Sequence[Epoch]:
    """The first of these epochs that fit a round together: one always does, none from one that stops the build on."""
    count, rows, read = 0, 0, 0
    for epoch in epochs:
        rows, read = rows + epoch.rows, read + epoch.bytes
        if epoch.stop is not None or (count and (rows > size.rows or read > size.bytes)):
            break
        count += 1
    return epochs[:count]


@dataclass(frozen=True, slots=True)
class SourceView:
    """The source as observed at one time. ``epochs`` are all versions after ``after`` through ``head``, in
    order.

    A version whose commit is gone is among them, with the error that says so.
    """

    table_id: str
    head: int
    after: int
    epochs: Sequence[Epoch]
    kept: int | None = None
    """Milliseconds for which the source keeps an epoch readable, if it was looked at."""
    at: int = 0
    """When the head was committed."""
    interval: int | None = None
    """Milliseconds that usually pass between two epochs, if that was looked at and can be told."""

    def pending(self, applied: int) -> Sequence[Epoch]:
        """The epochs later than ``applied``."""
        if applied < self.after:
            raise ValueError(f"epochs after {applied} were asked for, the view begins after {self.after}")
        return self.epochs[applied - self.after :]


def check_source(plan: Plan, view: SourceView, applied: int) -> None:
    """Raise if what comes after ``applied`` cannot be had from this source any more."""
    if view.table_id != plan.source.table_id:
        raise SourceReplaced(
            f"the source is table {view.table_id} now, the plan is for table {plan.source.table_id}",
            planned=plan.source.table_id,
            found=view.table_id,
        )
    if view.head < applied:
        raise SourceReplaced(
            f"the source stands at {view.head}, but {applied} was already applied",
            head=view.head,
            applied=applied,
        )
    pending = view.pending(applied)
    if pending and isinstance(pending[0].stop, HistoryLost):
        raise pending[0].stop


def lost(version: int) -> Epoch:
    """An epoch whose commit is not in the source's log any more."""
    error = HistoryLost(f"epoch {version} is needed, and its commit is gone from the source's log", epoch=version)
    return Epoch(number=version, at=0, rows=0, bytes=0, stop=error)


def epoch_of(plan: Plan, commit: Commit) -> Epoch:
    """``commit`` of the source as an epoch, with the error that stops a build there, if one does."""
    return replace(measured(commit), stop=_stop(plan, commit))


def measured(commit: Commit) -> Epoch:
    """``commit`` as an epoch, for what it costs."""
    rows = _changed_rows(commit)
    size = commit.changed.bytes if commit.changed.files else commit.added.bytes + commit.removed.bytes
    return Epoch(
        number=commit.version,
        at=commit.timestamp,
        rows=rows if commit.data_change else 0,
        bytes=size if commit.data_change else 0,
    )


def _changed_rows(commit: Commit) -> int:
    if commit.changed.files:
        named = (
            "numTargetRowsInserted",
            "numTargetRowsUpdated",
            "numTargetRowsDeleted",
            "numUpdatedRows",
            "numDeletedRows",
        )
        counted = sum(commit.metrics.get(name, 0) for name in named)
        return counted or max(commit.changed.rows or 0, commit.changed.files)
    added = commit.added.rows if commit.added.rows is not None else commit.metrics.get("numOutputRows", 0)
    removed = commit.removed.rows or 0
    hidden = commit.added.deleted_rows - commit.removed.deleted_rows
    if commit.removed.files and commit.added.files and added == removed and hidden > 0:
        return hidden
    uncounted = commit.added.rows is None or commit.removed.rows is None
    return max(added + removed, commit.added.files + commit.removed.files if uncounted else 0)


def _stop(plan: Plan, commit: Commit) -> BackfillError | None:
    if plan.appends and commit.data_change and not commit.append_only:
        lacking = "a change data feed" if not plan.source.feed else "a key"
        return NotAppendOnly(
            f"epoch {commit.version} ({commit.operation}) does more than add rows; without {lacking} only added rows "
            "can be followed",
            epoch=commit.version,
            operation=commit.operation,
        )
    return None if commit.metadata is None else _stop_of_metadata(plan, commit.version, commit.metadata)


def _stop_of_metadata(plan: Plan, version: int, metadata: TableMetadata) -> BackfillError | None:
    if metadata.table_id != plan.source.table_id:
        return SourceReplaced(f"epoch {version} makes the source another table", epoch=version, found=metadata.table_id)
    if not plan.appends and not has_feed(metadata):
        return FeedOff(f"epoch {version} switches the change data feed off", epoch=version)
    if metadata.partition_columns != plan.source.partition_columns:
        return SchemaChanged(f"epoch {version} changes the partitioning", epoch=version)
    return schema_change(
        plan.source.schema_json, metadata.schema_json, version, allow_new=plan.spec.new_columns == "ignore"
    )


def schema_change(before: str, after: str, version: int, *, allow_new: bool) -> SchemaChanged | None:
    """The first difference of two schemas that matters to rows, naming epoch and column; None if there is
    none.

    Names, types, nullability, order and physical names matter; comments, defaults and the high-water marks of
    identity columns do not.
    """
    old, new = _columns(before), _columns(after)
    for name, shape in old.items():
        if name not in new:
            return SchemaChanged(f"epoch {version} drops or renames column {name!r}", epoch=version, column=name)
        if new[name] != shape:
            return SchemaChanged(
                f"epoch {version} changes column {name!r}",
                epoch=version,
                column=name,
                before=json.dumps(shape)[:500],
                after=json.dumps(new[name])[:500],
            )
    added = [name for name in new if name not in old]
    if added and not allow_new:
        return SchemaChanged(f"epoch {version} adds column {added[0]!r}", epoch=version, column=added[0])
    return None


_MAPPING = ("delta.columnMapping.id", "delta.columnMapping.physicalName")


def _columns(schema_json: str) -> dict[str, Any]:
    return {field["name"]: _shape(field) for field in json.loads(schema_json)["fields"]}


def _shape(part: Any) -> Any:
    if isinstance(part, dict):
        kept = {name: _shape(value) for name, value in part.items() if name != "metadata"}
        mapping = {name: part["metadata"][name] for name in _MAPPING if name in part.get("metadata", {})}
        return {**kept, **({"mapping": mapping} if mapping else {})}
    if isinstance(part, list):
        return [_shape(item) for item in part]
    return part
