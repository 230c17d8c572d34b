"""What an attempt observes of the source's log, and what in it stops a build.

Each commit becomes a few numbers; no rows are read. A commit that changes the table in a way that the plan does not
allow has its error in ``stop``. Before the hand-off epoch is pinned, such a commit ends the build at once: the hand-off
would come after it, and hours of work would be lost. After the hand-off, every epoch before it is still applied. A
replaced source stops the build at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from airflow_backfill.core.source.backlog import Backlog
from airflow_backfill.core.source.epoch import Epoch
from airflow_backfill.core.values.commit import CommitId


@dataclass(frozen=True, slots=True)
class SourceView:
    """The source as observed at one time. ``epochs`` are all versions after ``after``, up to ``head``, in order.

    A version whose commit was deleted is among them, with its error.
    """

    table_id: str
    head: int
    after: int
    epochs: Backlog
    kept: int | None = None
    """Milliseconds for which the source keeps an epoch readable; None if unknown."""
    at: int = 0
    """When the head was committed, milliseconds since 1970; 0 if unknown."""
    interval: int | None = None
    """Median milliseconds between two epochs; None if unknown."""
    digest: str | None = None
    """Digest of the commit of ``after``; None if it was deleted, or there are no commits."""

    @property
    def latest(self) -> int:
        """When the newest pending epoch was committed; without any, the head; 0 if unknown."""
        return self.epochs[-1].at if self.epochs else self.at

    def pending(self, applied: int) -> Backlog:
        """The epochs later than ``applied``."""
        if applied < self.after:
            raise ValueError(f"epochs after {applied} are not in this view, which begins after {self.after}")
        return self.epochs[applied - self.after :]

    def count(self, applied: int) -> int:
        """How many epochs are later than ``applied``."""
        return len(self.pending(applied))

    def rows(self, applied: int) -> int:
        """Their changed rows."""
        return self.pending(applied).rows

    def oldest(self, applied: int) -> Epoch | None:
        """The first of them; None if there is none."""
        pending = self.pending(applied)
        return pending[0] if pending else None

    def stopping(self, applied: int) -> Epoch | None:
        """The first of them that stops the build; None if none does."""
        return self.pending(applied).stopping

    def upto(self, head: int) -> SourceView:
        """As if ``head``, not before ``after``, was the newest epoch."""
        return replace(self, head=head, epochs=self.epochs[: head - self.after])

    def commit(self, version: int) -> CommitId | None:
        """The identity of a version's commit; None if it is not in this view, or deleted."""
        place = version - self.after - 1
        digest = self.digest if place == -1 else self.epochs[place].digest if 0 <= place < len(self.epochs) else None
        return None if digest is None else CommitId(version, digest)
