"""Commits of other writers in the target: maintenance is allowed, a change of rows stops the build."""

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
        raise _diverged(plan, commit, f"another writer ran {commit.operation}")
    if commit.metadata is not None:
        if commit.metadata.table_id != plan.target_id:
            raise _diverged(plan, commit, "another table replaced the target")
        changed = schema_change(plan.target_schema_json, commit.metadata.schema_json, commit.version, allow_new=False)
        if changed is not None:
            raise _diverged(plan, commit, changed.message)
    record = barrier_record(commit)
    ours = record is not None and record.build == plan.build
    if commit.data_change and not ours:
        raise _diverged(plan, commit, f"another writer changed rows ({commit.operation or 'unknown operation'})")
    if commit.belied:
        what = f"{commit.operation or 'a commit'} claims to change no rows (dataChange=false)"
        raise _diverged(plan, commit, f"{what}, but added {commit.added.live} and removed {commit.removed.live}")


def _diverged(plan: Plan, commit: Commit, what: str) -> TargetDiverged:
    return TargetDiverged(
        f"version {commit.version} of the target: {what}; the target's rows may no longer match the source. RESTORE "
        f"the target to its last barrier, run 'table-backfill recover {plan.spec.target} --epoch N --why REASON' "
        "with the epoch of that barrier, then clear the verify task; or plan the build again with "
        "on_existing='restart'",
        version=commit.version,
        operation=commit.operation,
    )
