"""Commits of a Delta table as epochs: what they cost to read, and which of them stop a build."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from airflow_backfill.core.delta.changed_rows import changed_rows
from airflow_backfill.core.delta.schema import schema_change
from airflow_backfill.core.errors import (
    BackfillError,
    ChangesIncomplete,
    FeedOff,
    HistoryLost,
    NotAppendOnly,
    SchemaChanged,
)
from airflow_backfill.core.kafka.topic_spec import RECORD_COLUMNS
from airflow_backfill.core.model.plan import Plan
from airflow_backfill.core.source.epoch import Epoch
from airflow_backfill.core.source.identity import ways_out
from airflow_backfill.core.values.commit import Commit, TableMetadata

FEED = "delta.enableChangeDataFeed"


def has_feed(metadata: TableMetadata) -> bool:
    """Whether the table has a change data feed under this metadata."""
    return metadata.configuration.get(FEED, "false").lower() == "true"


def lost(version: int) -> Epoch:
    """An epoch whose commit was deleted from the source's log."""
    error = HistoryLost(
        f"the build needs epoch {version}, but its commit was deleted from the source's log", epoch=version
    )
    return Epoch(number=version, at=0, rows=0, bytes=0, stop=error)


def epoch_of(plan: Plan, commit: Commit, before: Callable[[], str | None] = lambda: None) -> Epoch:
    """``commit`` as an epoch, with the error that stops the build there, if there is one. ``before``: the schema of the
    epoch before, None if it is unknown.
    """
    return replace(measured(commit), stop=_stop(plan, commit, before), digest=commit.digest)


def measured(commit: Commit) -> Epoch:
    """``commit`` as an epoch, without the check whether it stops a build."""
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
        only_adds=commit.append_only or not commit.data_change,
    )


def _weight(commit: Commit, rows: int, size: int) -> int:
    """The bytes of the changed rows, as a part of the files' bytes."""
    there = commit.added.rows, commit.removed.rows
    if commit.changed.files or None in there:
        return size
    of = sum(count or 0 for count in there)
    return min(size, -(-size * rows // of)) if of else size


def _stop(plan: Plan, commit: Commit, before: Callable[[], str | None]) -> BackfillError | None:
    if plan.appends and commit.data_change and not commit.append_only:
        if plan.splits.landing:
            return NotAppendOnly(
                f"epoch {commit.version} ({commit.operation}) updates or deletes rows of the landing table, but the "
                "build can only take added ones; plan again with on_existing='restart', and from then on only append",
                epoch=commit.version,
                operation=commit.operation,
            )
        lacking = "a change data feed" if not plan.source.feed else "a key"
        return NotAppendOnly(
            f"epoch {commit.version} ({commit.operation}) updates or deletes rows, but without {lacking} a build can "
            "only follow added rows; give the source a change data feed and the build a key, and "
            f"{ways_out(plan, commit.version)}",
            epoch=commit.version,
            operation=commit.operation,
        )
    if commit.belied:
        return ChangesIncomplete(
            f"epoch {commit.version} ({commit.operation}) claims to change no rows (dataChange=false), but adds "
            f"{commit.added.live} and removes {commit.removed.live}: these changes are in no change feed; "
            f"{ways_out(plan, commit.version)}",
            epoch=commit.version,
            operation=commit.operation,
        )
    return None if commit.metadata is None else _stop_of_metadata(plan, commit, commit.metadata, before)


def _stop_of_metadata(
    plan: Plan, commit: Commit, metadata: TableMetadata, before: Callable[[], str | None]
) -> BackfillError | None:
    version = commit.version
    if not plan.appends and not has_feed(metadata):
        return FeedOff(
            f"epoch {version} switches the change data feed off, so later changes cannot be read; switch it on again "
            f"({FEED} = true); then {ways_out(plan)}",
            epoch=version,
        )
    undo = (
        "undo that in the source (a type or a partitioning only by RESTORE TABLE "
        f"delta.`{plan.spec.table}` TO VERSION AS OF {version - 1}, which also undoes what was written since)"
    )
    if metadata.partition_columns != plan.source.partition_columns:
        return SchemaChanged(
            f"epoch {version} changes the partitioning from {list(plan.source.partition_columns)} to "
            f"{list(metadata.partition_columns)}; {ways_out(plan, correct=undo)}",
            epoch=version,
        )

    landing = plan.splits.landing  # others may give it columns of their own
    used, last = RECORD_COLUMNS if landing else plan.source.columns, before()

    def changed(*, allow_new: bool) -> SchemaChanged | None:
        schemas = plan.source.schema_json, metadata.schema_json
        return schema_change(*schemas, version, before=last, used=used, allow_new=allow_new)

    error = changed(allow_new=landing or plan.spec.new_columns == "ignore")
    if error is None:
        return None
    if changed(allow_new=True) is not None:
        return SchemaChanged(f"{error.message}; {ways_out(plan, correct=undo)}", **error.data)
    ignored = "(with new_columns='ignore' the next build goes on without such columns)"
    ways = ways_out(plan, version, same_rows=not commit.data_change)
    return SchemaChanged(f"{error.message}; {ways} {ignored}", **error.data)
