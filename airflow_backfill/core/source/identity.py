"""Whether the source is still the one that was planned, with the history that the target was built from."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_backfill.core.errors import (
    HistoryLost,
    SourceReplaced,
)
from airflow_backfill.core.model.plan import Plan
from airflow_backfill.core.source.view import SourceView
from airflow_backfill.core.values.commit import CommitId
from airflow_backfill.core.values.phase import BUILDING, Phase


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
