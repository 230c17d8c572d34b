"""What is seen of the source's log, and what in it stops a build.

Epochs are watched, not read: a commit becomes a few numbers. A commit that changes the table in a way the
plan does not allow carries its error along. Until the hand-off epoch is fixed, such a commit ends the build as soon as
it is seen, because the hand-off would be later, and hours of work would be for nothing. Whoever follows a finished
build gets every epoch before it. A source that was replaced stops everything at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from airflow_backfill.core.delta.changed_rows import changed_rows
from airflow_backfill.core.errors import (
    BackfillError,
    ChangesIncomplete,
    FeedOff,
    HistoryLost,
    NotAppendOnly,
    SchemaChanged,
    SourceReplaced,
)
from airflow_backfill.core.model.plan import Plan
from airflow_backfill.core.source.backlog import Backlog
from airflow_backfill.core.values.commit import Commit, CommitId, TableMetadata
from airflow_backfill.core.values.phase import BUILDING, Phase
from airflow_backfill.core.values.round_size import RoundSize

FEED = "delta.enableChangeDataFeed"


@dataclass(frozen=True, slots=True)
class Epoch:
    """One committed version of the source, as rounds are planned by it."""

    number: int
    at: int
    rows: int
    """Changed rows, as the commit counts them; an upper bound where it does not."""
    bytes: int
    """What has to be read for its changes."""
    stop: BackfillError | None = None
    weight: int = 0
    """Bytes of the changed rows, as they are in files: what a round of it holds at once."""
    files: int = 0
    """File actions of its commit."""
    cuts: bool = False
    """The changes before it and after it cannot be read in one go: files were rewritten, or the table reshaped."""
    digest: str | None = None
    """Of its commit; None if that is gone."""

    @property
    def quiet(self) -> bool:
        """Whether it changes no row."""
        return self.rows == 0 and self.bytes == 0


def has_feed(metadata: TableMetadata) -> bool:
    """Whether a table writes its changes down as long as this metadata holds."""
    return metadata.configuration.get(FEED, "false").lower() == "true"


def fitting(epochs: Backlog, size: RoundSize) -> Backlog:
    """The first of these epochs that fit a round together: one always does, none from one that stops the build on."""
    count, taken = 0, (0, 0, 0, 0)
    for epoch in epochs[: size.epochs]:
        taken = (taken[0] + epoch.bytes, taken[1] + epoch.rows, taken[2] + epoch.files, taken[3] + epoch.cuts)
        if epoch.stop is not None or (count and not size.holds(*taken)):
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
    epochs: Backlog
    kept: int | None = None
    """Milliseconds for which the source keeps an epoch readable, if it was looked at."""
    at: int = 0
    """When the head was committed."""
    interval: int | None = None
    """Milliseconds that usually pass between two epochs, if that was looked at and can be told."""
    digest: str | None = None
    """Of the commit of ``after``; None if that is gone, or there are no commits."""

    def pending(self, applied: int) -> Backlog:
        """The epochs later than ``applied``."""
        if applied < self.after:
            raise ValueError(f"epochs after {applied} were asked for, the view begins after {self.after}")
        return self.epochs[applied - self.after :]

    def commit(self, version: int) -> CommitId | None:
        """Which commit a version is; None if it is not seen here, or gone."""
        place = version - self.after - 1
        digest = self.digest if place == -1 else self.epochs[place].digest if 0 <= place < len(self.epochs) else None
        return None if digest is None else CommitId(version, digest)


def check_source(plan: Plan, view: SourceView, applied: int, stands: Iterable[CommitId]) -> None:
    """Raise if what comes after ``applied`` cannot be had from this source any more, or belongs to another history
    than the commits at which the target ``stands``.

    Where the source's log was cleaned up so far that the commit at ``applied`` is gone, nothing is left to compare.
    Clean-up takes the oldest commits, and none younger than the log's retention, so a history that was put back would
    have to be older than that, too; and an epoch more of it missing is HistoryLost.
    """
    if view.table_id != plan.source.table_id:
        raise SourceReplaced(
            f"the source is table {view.table_id} now, the plan is for table {plan.source.table_id}",
            planned=plan.source.table_id,
            found=view.table_id,
        )
    if view.head < applied:
        raise SourceReplaced(
            f"the source stands at {view.head}, but {applied} was already applied: it was put back to an earlier "
            f"state, for example from a backup; {_ways_out(plan, view.head)}",
            head=view.head,
            applied=applied,
        )
    for commit in stands:
        if commit.version > view.head or view.commit(commit.version) not in (None, commit):
            raise _put_back(plan, commit, view)
    pending = view.pending(applied)
    if pending and isinstance(pending[0].stop, HistoryLost):
        raise pending[0].stop


def check_ahead(phase: Phase, view: SourceView, applied: int) -> None:
    """Raise what stops the build at an epoch after ``applied`` that it has to reach."""
    stopping = view.pending(applied).stopping if phase in BUILDING else None
    if stopping is not None and stopping.stop is not None:
        raise stopping.stop


def _put_back(plan: Plan, known: CommitId, view: SourceView) -> SourceReplaced:
    found = view.commit(known.version)
    return SourceReplaced(
        f"epoch {known.version} of the source is not the commit that the target was built with ({known.digest}, now "
        f"{found.digest if found else 'gone'}): the source was put back to an earlier state, for example from a "
        f"backup; {_ways_out(plan, min(known.version, view.head))}",
        epoch=known.version,
        known=known.digest,
        found=found.digest if found else None,
    )


def _ways_out(plan: Plan, epoch: int) -> str:
    """How to go on with a source whose history is another one."""
    restart = "plan the build again with on_existing='restart'"
    if not plan.splits.recoverable or epoch < plan.source.epoch:
        return restart
    return f"{restart}, or keep the target: 'recover --epoch {epoch}', then verify it, and 'repair' what differs"


def lost(version: int) -> Epoch:
    """An epoch whose commit is not in the source's log any more."""
    error = HistoryLost(f"epoch {version} is needed, and its commit is gone from the source's log", epoch=version)
    return Epoch(number=version, at=0, rows=0, bytes=0, stop=error)


def epoch_of(plan: Plan, commit: Commit) -> Epoch:
    """``commit`` of the source as an epoch, with the error that stops a build there, if one does."""
    return replace(measured(commit), stop=_stop(plan, commit), digest=commit.digest)


def measured(commit: Commit) -> Epoch:
    """``commit`` as an epoch, for what it costs."""
    rows = changed_rows(commit)
    size = commit.changed.bytes if commit.changed.files else commit.added.bytes + commit.removed.bytes
    return Epoch(
        number=commit.version,
        at=commit.timestamp,
        rows=rows,
        bytes=size if commit.data_change else 0,
        weight=_weight(commit, rows, size) if commit.data_change else 0,
        files=commit.added.files + commit.removed.files + commit.changed.files,
        cuts=commit.rewrites or commit.metadata is not None,
    )


def _weight(commit: Commit, rows: int, size: int) -> int:
    """The part of the files' bytes that is the changed rows'."""
    there = commit.added.rows, commit.removed.rows
    if commit.changed.files or None in there:
        return size
    of = sum(count or 0 for count in there)
    return min(size, -(-size * rows // of)) if of else size


def _stop(plan: Plan, commit: Commit) -> BackfillError | None:
    if plan.appends and commit.data_change and not commit.append_only:
        lacking = "a change data feed" if not plan.source.feed else "a key"
        return NotAppendOnly(
            f"epoch {commit.version} ({commit.operation}) does more than add rows; without {lacking} only added rows "
            "can be followed",
            epoch=commit.version,
            operation=commit.operation,
        )
    if commit.belied:
        return ChangesIncomplete(
            f"epoch {commit.version} ({commit.operation}) says that it changes no rows (dataChange=false), but adds "
            f"{commit.added.live} and removes {commit.removed.live}: no change feed has them; plan the build again "
            "with on_existing='restart'",
            epoch=commit.version,
            operation=commit.operation,
        )
    return None if commit.metadata is None else _stop_of_metadata(plan, commit.version, commit.metadata)


def _stop_of_metadata(plan: Plan, version: int, metadata: TableMetadata) -> BackfillError | None:
    if metadata.table_id != plan.source.table_id:
        return SourceReplaced(f"epoch {version} makes the source another table", epoch=version, found=metadata.table_id)
    if not plan.appends and not has_feed(metadata):
        return FeedOff(
            f"epoch {version} switches the change data feed off, so that later changes are not to be had; switch it on "
            f"again ({FEED} = true) and plan again with on_existing='restart'",
            epoch=version,
        )
    if metadata.partition_columns != plan.source.partition_columns:
        return SchemaChanged(
            f"epoch {version} changes the partitioning from {list(plan.source.partition_columns)} to "
            f"{list(metadata.partition_columns)}; plan again with on_existing='restart'",
            epoch=version,
        )
    ignored = plan.spec.new_columns == "ignore"
    source = plan.source
    changed = schema_change(source.schema_json, metadata.schema_json, version, used=source.columns, allow_new=ignored)
    if changed is None:
        return None
    way_out = "plan again with on_existing='restart' (new_columns='ignore' passes over columns that are only added)"
    return SchemaChanged(f"{changed.message}; {way_out}", **changed.data)


def schema_change(
    before: str, after: str, version: int, *, used: Iterable[str] | None = None, allow_new: bool = False
) -> SchemaChanged | None:
    """The first difference of two schemas that matters to rows, naming epoch and column; None if there is none.

    Names, types, nullability and physical names matter; comments, defaults and the high-water marks of identity
    columns do not. Of the columns of ``before`` only those ``used`` matter, if some are named.
    """
    known = _columns(before)
    old = known if used is None else {name: shape for name, shape in known.items() if name in set(used)}
    try:
        new = _columns(after)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return SchemaChanged(
            f"version {version} has a schema that cannot be read ({after[:100]!r}): its log is damaged",
            epoch=version,
        )
    for name, shape in old.items():
        if name not in new:
            return SchemaChanged(f"epoch {version} drops or renames column {name!r}", epoch=version, column=name)
        if new[name] != shape:
            was, now = (json.dumps(kind, sort_keys=True)[:200] for kind in (shape, new[name]))
            return SchemaChanged(
                f"epoch {version} changes column {name!r} from {was} to {now}",
                epoch=version,
                column=name,
                before=json.dumps(shape)[:500],
                after=json.dumps(new[name])[:500],
            )
    mapped = [shape["mapping"] for shape in known.values() if "mapping" in shape]
    added = [name for name, shape in new.items() if name not in known and shape.get("mapping") not in mapped]
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
