"""Takes a build back to the version to which its target was restored (docs/decisions.md).

A version of the target never changes, and the records up to it say what its rows are. If nothing has changed rows since
the RESTORE, the build goes on from these records, in their phase. What a chain has announced stays announced.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from airflow_backfill.core.errors import BackfillError, NotAllowedNow
from airflow_backfill.core.model.announcement import Announced, announcement
from airflow_backfill.core.model.record import Record, barrier_record
from airflow_backfill.core.state.effect import Asks, ReadCommit, ReadHead
from airflow_backfill.core.state.load import load
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.target_table.foreign_commits import check_commit
from airflow_backfill.core.values.commit import Commit

RESTORE = "run RESTORE TABLE ... TO VERSION AS OF the version before the damage, then recover again, without --epoch"


def standing(build: str) -> Asks[tuple[int, BuildState]]:
    """The target's newest version, and the build as of the version whose rows it has: that one, or the older one that a
    RESTORE names, which may have its rows by a RESTORE, too. NotAllowedNow if none does, TargetDiverged if the table
    was changed since.
    """
    head = yield from ReadHead()
    at, since = head, list[Commit]()
    while True:
        try:
            state = yield from load(build, at)
            break
        except BackfillError as error:
            if error.retry:
                raise
            at, later = yield from _restored(at, error)
            since = [*later, *since]
    for commit in since:
        check_commit(state.plan, commit, barrier_record(commit, build))
    if at < head and state.announced is not None:
        state = replace(state, announced=(yield from _announced(state, at, head)))
    return head, state


def _announced(then: BuildState, at: int, head: int) -> Asks[Announced | None]:
    """What a chain has announced up to now, which nothing takes back."""
    for version in range(head, at, -1):
        found = announcement((yield from ReadCommit(version)), then.plan.build)
        if found is not None:
            return Announced.at(version, found)
    return then.announced


def rewound(record: Record) -> Asks[Record]:
    """The record of a rewind. The fences are committed, so whatever older attempts have written is there to see."""
    head, state = yield from standing(record.build)
    return replace(
        record,
        prev=head,
        phase=state.phase,
        positions=state.positions,
        base=state.totals,
        source=max(state.stands, key=lambda commit: commit.version, default=None),
        bound=state.bound,
        handoff=state.handoff,
        certificate=state.certificate,
        recovered=state.recovered,
        cost=state.cost,
        announced=None if state.announced is None else state.announced.version,
        news=state.news,
    )


def _restored(at: int, error: BackfillError) -> Asks[tuple[int, Sequence[Commit]]]:
    """The older version whose rows version ``at`` has, and the commits since the RESTORE that names it. NotAllowedNow
    if there is none, or if rows changed since: it repeats the ``error`` of the build at ``at``, which names a version.
    """
    since: list[Commit] = []
    for version in range(at, -1, -1):
        commit = yield from ReadCommit(version)
        if commit.restored is not None:
            return commit.restored, since[::-1]
        if commit.data_change or commit.belied or commit.strays:
            raise NotAllowedNow(
                f"version {version} of the target changed rows ({commit.operation or 'unknown operation'}) and is no "
                f"RESTORE to a version; {RESTORE}. The damage: {error.message}",
                version=version,
            )
        since.append(commit)
    raise NotAllowedNow(f"the target was not restored; {RESTORE}. The damage: {error.message}")
