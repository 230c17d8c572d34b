"""Commits of somebody else in the target: maintenance passes, anything that changes rows stops the build."""

from __future__ import annotations

from airflow_backfill.core.delta.schema import schema_change
from airflow_backfill.core.errors import TargetDiverged
from airflow_backfill.core.model.plan import Plan
from airflow_backfill.core.model.record import barrier_record
from airflow_backfill.core.values.commit import Commit

_REPLACING = ("RESTORE", "CLONE", "REPLACE TABLE", "CREATE OR REPLACE", "CREATE TABLE AS SELECT")


def check_commit(plan: Plan, commit: Commit) -> None:
    """Raise TargetDiverged unless the commit is ours or changes neither rows nor the table."""
    if commit.operation.upper().startswith(_REPLACING):
        raise _diverged(commit, f"a {commit.operation} by somebody else")
    if commit.metadata is not None:
        if commit.metadata.table_id != plan.target_id:
            raise _diverged(commit, "another table took the target's place")
        changed = schema_change(plan.target_schema_json, commit.metadata.schema_json, commit.version, allow_new=False)
        if changed is not None:
            raise _diverged(commit, changed.message)
    record = barrier_record(commit)
    ours = record is not None and record.build == plan.build
    if commit.data_change and not ours:
        raise _diverged(commit, f"a {commit.operation or 'commit'} by somebody else changed rows")
    if commit.belied:
        what = f"a {commit.operation or 'commit'} says that it changes no rows (dataChange=false), and added or removed"
        raise _diverged(commit, f"{what} some: {commit.added.live} were added, {commit.removed.live} removed")


def _diverged(commit: Commit, what: str) -> TargetDiverged:
    return TargetDiverged(
        f"version {commit.version} of the target: {what}; the build cannot vouch for the target's rows any more. "
        "Put them right and say at which epoch they stand (table-backfill recover), or plan the build again with "
        "on_existing='restart'",
        version=commit.version,
        operation=commit.operation,
    )
