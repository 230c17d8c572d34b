"""The last barriers of a build, read from the target's log at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from airflow_backfill.core.model.record import barrier_record
from airflow_backfill.core.splits.position import newest_epoch
from airflow_backfill.core.state.state import Barrier, BuildState
from airflow_backfill.core.values.commit import Commit
from airflow_backfill.ledger.delta_log import DeltaLog

COMMITS = 20
"""Commits of the target that are read by default."""


@dataclass(frozen=True, slots=True)
class History:
    barriers: tuple[Barrier, ...]
    """Newest first."""
    whole: bool
    """Whether they reach back to the plan."""

    @staticmethod
    def read(log: DeltaLog, state: BuildState, commits: int = COMMITS) -> History:
        """The barriers of the build among the last ``commits`` commits up to its newest barrier."""
        known = () if state.newest is None else (state.newest,)  # it is read already
        newest = state.plan.target_version if state.newest is None else state.newest.version - 1
        oldest = max(newest - commits + 1 + len(known), 0)
        found = list(log.read_each(range(newest, oldest - 1, -1)))
        # Older commits than a deleted one are of no use: log clean-up deletes from the start.
        there = found[: found.index(None)] if None in found else found
        barriers = (*known, *_barriers(there, state.plan.build))
        return History(barriers, len(there) == len(found) and oldest <= state.plan.target_version)

    @property
    def recent(self) -> History:
        """The barriers among the last ``COMMITS`` commits, by which ``status`` and the page measure the speed."""
        oldest = self.barriers[0].version - COMMITS if self.barriers else 0
        return replace(self, barriers=tuple(one for one in self.barriers if one.version > oldest))

    @property
    def of_this_phase(self) -> Sequence[Barrier]:
        """The barriers after the build came to its current phase."""
        phases = [barrier.record.phase for barrier in self.barriers]
        end = next((place for place, phase in enumerate(phases) if phase is not phases[0]), len(phases))
        return self.barriers[:end]

    @property
    def longest_ms(self) -> int:
        """The longest time between two of them, in milliseconds; 0 for less than two. Two attempts may have two clocks,
        so that only times of the same one are compared.
        """
        pairs = ((new, old) for new, old in pairwise(self.barriers) if new.record.attempt == old.record.attempt)
        return max((new.at - old.at for new, old in pairs), default=0)

    def to_json(self) -> list[dict[str, Any]]:
        """A point for each barrier, oldest first. Times are milliseconds since 1970; rows and bytes are its own."""
        return [_point(barrier) for barrier in reversed(self.barriers)]


def longest_ms(log: DeltaLog, state: BuildState) -> int:
    """The longest time between the last barriers, for ``health``."""
    return History.read(log, state).longest_ms


def barriers_in(log: DeltaLog, build: str, versions: Sequence[int]) -> list[Barrier]:
    """The build's barriers among these versions, in their order. Deleted commits are left out."""
    return list(_barriers(log.read_each(versions), build))


def _barriers(commits: Iterable[Commit | None], build: str) -> Iterator[Barrier]:
    for commit in commits:
        record = None if commit is None else barrier_record(commit, build)
        if commit is not None and record is not None:
            yield Barrier.of(commit, record)


def _point(barrier: Barrier) -> dict[str, Any]:
    record, pending = barrier.record, barrier.record.pending
    return {
        "version": barrier.version,
        "at": barrier.at,
        "phase": record.phase.value,
        "event": record.event.value,
        "rows": barrier.rows,
        "bytes": record.work.snapshot_bytes,
        "epoch": newest_epoch(record.positions),
        "head": None if pending is None else pending.head,
        "pending": None if pending is None else pending.epochs,
        "pending_rows": None if pending is None else pending.rows,
        "bound": None if record.bound is None else record.bound.value,
        "waits": record.waits,
        "control": record.control.to_json(),
        "attempt": record.attempt,
    }
