"""Whether the source is still the planned table, with the history that the target was built from."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_backfill.core.errors import HistoryLost, SourceReplaced, SourceUnavailable
from airflow_backfill.core.model.plan import Plan
from airflow_backfill.core.source.glance import Ahead
from airflow_backfill.core.values.commit import CommitId
from airflow_backfill.core.values.phase import BUILDING, Phase

CLEAR = "clear the failed task and the tasks after it (if it is the follower: verify and finish first)"
"""What to clear after a recovery to an epoch: Airflow starts no task while one before it has failed."""


def check_source(plan: Plan, view: Ahead, applied: int, stands: Iterable[CommitId]) -> None:
    """``check_history``, and HistoryLost if the epochs after ``applied`` are deleted."""
    check_history(plan, view, applied, stands)
    oldest = view.oldest(applied)
    if oldest is not None and isinstance(oldest.stop, HistoryLost):
        raise oldest.stop


def check_history(plan: Plan, view: Ahead, applied: int, stands: Iterable[CommitId]) -> None:
    """SourceReplaced if the source has another history than the commits in ``stands``, at which the target stands.

    A commit of ``stands`` that was cleaned up cannot be compared. Clean-up only deletes commits that are older than the
    log's retention, so only a restore to a state of that age stays undetected.
    """
    if view.table_id != plan.source.table_id:
        raise SourceReplaced(
            f"the source is table {view.table_id}, but the plan is for table {plan.source.table_id}: it was created "
            "again, for example by CREATE OR REPLACE TABLE (INSERT OVERWRITE keeps the table); restore the "
            "planned table (by RESTORE TABLE, if it was replaced) and clear the task, or plan again with "
            "on_existing='restart'",
            planned=plan.source.table_id,
            found=view.table_id,
        )
    if view.head < applied:
        raise SourceReplaced(
            f"the source is at epoch {view.head}, but epoch {applied} is already applied: the source was restored to "
            f"an earlier state, for example from a backup; {ways_out(plan, view.head)}",
            head=view.head,
            applied=applied,
        )
    for commit in stands:
        if commit.version > view.head or view.commit(commit.version) not in (None, commit):
            raise _restored(plan, commit, view)


def check_read(read: CommitId | None, wanted: CommitId | None) -> None:
    """Raise SourceUnavailable, after which an attempt looks at the source again, if the commit that was ``read`` is not
    the one on which the round was decided: once the planned history is back, nobody would notice rows of another one.
    """
    if read is not None and wanted is not None and read.version == wanted.version and read != wanted:
        raise SourceUnavailable(
            f"epoch {read.version} of the source is another commit than when the round began: the source was restored "
            "to an earlier state, for example from a backup",
            epoch=read.version,
        )


def check_ahead(phase: Phase, view: Ahead, applied: int) -> None:
    """Raise the error of the first pending epoch that stops the build, if the build has to apply it."""
    stopping = view.stopping(applied) if phase in BUILDING else None
    if stopping is not None and stopping.stop is not None:
        raise stopping.stop


def _restored(plan: Plan, known: CommitId, view: Ahead) -> SourceReplaced:
    found = view.commit(known.version)
    back = (
        "; or go back, too: RESTORE the target to a version from before these epochs (userMetadata in its DESCRIBE "
        f"HISTORY names positions), run 'table-backfill recover {plan.spec.target} --why REASON', then clear the task"
        f"{'; that does not help if one of them was announced' if plan.strategy.announces else ''}"
    )
    return SourceReplaced(
        f"epoch {known.version} of the source is not the commit that the target was built with ({known.digest}, now "
        f"{found.digest if found else 'deleted'}): the source was restored to an earlier state, for example from a "
        f"backup; {ways_out(plan, min(known.version, view.head))}{back if known.version > plan.source.epoch else ''}",
        epoch=known.version,
        known=known.digest,
        found=found.digest if found else None,
    )


def ways_out(
    plan: Plan, epoch: int | None = None, *, same_rows: bool = False, correct: str = "correct the source"
) -> str:
    """The ways out if the log does not lead from where the target stands to ``epoch`` (None: to a later correction, by
    what ``correct`` says). Without a key nothing can be repaired, so the epoch must have the ``same_rows`` as the one
    before.
    """
    restart = "plan the build again with on_existing='restart'"
    if not plan.splits.recoverable or (epoch is not None and epoch < plan.source.epoch):
        return restart
    named, of = ("N", " with the epoch of the correction") if epoch is None else (epoch, "")
    recover = f"run 'table-backfill recover {plan.spec.target} --epoch {named} --why REASON'{of}, then"
    if plan.spec.key:
        return (
            f"{restart}; or keep the target: {f'{correct}, ' if epoch is None else ''}{recover} "
            f"'table-backfill repair {plan.spec.target} --why REASON', then {CLEAR}"
        )
    if epoch is None or not same_rows:
        return restart
    return f"{restart}; or, if the target stands at epoch {epoch - 1}, keep it: {recover} {CLEAR}"
