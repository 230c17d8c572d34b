"""What is seen of the source's log, and what in it stops a build.

Epochs are watched, not read: a commit becomes a few numbers. A commit that changes the table in a way the
plan does not allow carries its error along. Until the hand-off epoch is fixed, such a commit ends the build as soon as
it is seen, because the hand-off would be later, and hours of work would be for nothing. Whoever follows a finished
build gets every epoch before it. A source that was replaced stops everything at once.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_backfill.core.source.backlog import Backlog
from airflow_backfill.core.values.commit import CommitId


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
