"""Commits of other writers in the target: maintenance is allowed, a change of rows stops the build."""

from __future__ import annotations

from airflow_backfill.core.delta.schema import difference
from airflow_backfill.core.errors import NotPlanned, TargetDiverged
from airflow_backfill.core.model.plan import Plan
from airflow_backfill.core.model.record import Record
from airflow_backfill.core.values.commit import Commit

_REPLACING = ("RESTORE", "CLONE", "REPLACE TABLE", "CREATE OR REPLACE", "CREATE TABLE AS SELECT")


def check_commit(plan: Plan, commit: Commit, record: Record | None) -> None:
    """Raise TargetDiverged unless the commit is ours or changes neither rows nor the table. ``record``: that of the
    commit, None if it is no barrier of the build.
    """
    _check(plan, commit, _replaced(plan, commit) or _foreign(commit, record))


def check_table(plan: Plan, commit: Commit, _: Record | None) -> None:
    """Raise TargetDiverged if the commit puts another table, or a former version, in the target's place. It may change
    rows.
    """
    _check(plan, commit, _replaced(plan, commit))


def check_not_put_back(seen: int, head: int) -> None:
    """Raise TargetDiverged if the log ends at ``head``, before a version that was ``seen``."""
    if head < seen:
        raise TargetDiverged(
            f"the target's log ends at version {head}, but version {seen} was there: somebody put an older copy of the "
            "target in its place; clear the task: the build goes on from there",
            version=head,
        )


def check_follows(plan: Plan, version: int, prev: int) -> None:
    """Raise TargetDiverged unless the version of a barrier is later than the ``prev`` that its writer had seen."""
    if version <= prev:
        raise TargetDiverged(
            f"version {version} of the target follows version {prev}: while an attempt worked, somebody put an older "
            "copy of the target in its place, and what was written in between is missing; "
            f"{way_back(plan.spec.target, version - 1)}",
            version=version,
        )


def another_table(target: str) -> NotPlanned:
    """The error that the target was dropped, and that a table of another writer stands in its place."""
    return NotPlanned(
        f"another table stands at {target} than the one that was planned, which was dropped: nothing of the build is "
        "left, and a build never changes another writer's table; move that table away, or name another target, then "
        "clear the plan task and the tasks after it",
        target=target,
    )


def check_unplanned(draft: Plan, commit: Commit) -> None:
    """Raise TargetDiverged if the commit changes rows or the table before the build has a plan."""
    why = _replaced(draft, commit) or _foreign(commit, None)
    if why is not None:
        raise _diverged(commit, why, "move that table away, or name another target; then clear the task")


def _check(plan: Plan, commit: Commit, why: str | None) -> None:
    if why is not None:
        back = way_back(plan.spec.target, commit.version - 1)
        again = "plan the build again with on_existing='restart'"
        if commit.metadata is not None and commit.metadata.table_id != plan.target_id:
            again = f"move this table away and {again}"  # a restart drops no table of another writer
        raise _diverged(commit, why, f"{back}; or {again}")


def _diverged(commit: Commit, why: str, way_out: str) -> TargetDiverged:
    return TargetDiverged(
        f"version {commit.version} of the target: {why}, so its rows may no longer match the source; {way_out}",
        version=commit.version,
        operation=commit.operation,
    )


def way_back(target: str, version: int) -> str:
    """What leads a build back to a version of its target, in words."""
    return (
        f"run RESTORE TABLE delta.`{target}` TO VERSION AS OF {version}, then `table-backfill recover {target} --why "
        "REASON`, then clear the task"
    )


def _replaced(plan: Plan, commit: Commit) -> str | None:
    """What another writer did to the table in the commit; None for nothing."""
    if commit.operation.upper().startswith(_REPLACING):
        return f"another writer ran {commit.operation}"
    if commit.metadata is not None:
        if commit.metadata.table_id != plan.target_id:
            return "another table replaced the target"
        was, is_ = plan.target_schema_json, commit.metadata.schema_json
        changed = difference(was, is_, allow_new=True)
        if changed is not None:
            return f"it {changed[0]}"
    return None


def _foreign(commit: Commit, record: Record | None) -> str | None:
    """What another writer did to rows in the commit; None if the commit is ours, or harmless."""
    if commit.data_change and record is None:
        return f"another writer changed rows ({commit.operation or 'unknown operation'})"
    if commit.strays:
        what = f"{commit.operation or 'a commit'} rewrote files that the table never had"
        return f"{what}: they are those of a table that was dropped there"
    if commit.belied:
        what = f"{commit.operation or 'a commit'} claims to change no rows (dataChange=false)"
        return f"{what}, but added {commit.added.live} and removed {commit.removed.live}"
    return None
