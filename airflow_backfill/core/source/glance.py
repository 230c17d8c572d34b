"""What a waiting task knows of the source: its head, the oldest pending epoch, and the first one that stops the build.

It does not list the pending epochs, so it takes the same memory for one as for a million.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from airflow_backfill.core.source.epoch import Epoch
from airflow_backfill.core.values.commit import CommitId


class Ahead(Protocol):
    """What a decision about pending epochs asks of the source: a ``SourceView`` knows it, and a ``Glance``."""

    @property
    def table_id(self) -> str: ...
    @property
    def head(self) -> int: ...
    @property
    def after(self) -> int: ...
    @property
    def kept(self) -> int | None: ...
    @property
    def latest(self) -> int:
        """When the newest epoch of which that is known was committed, by its writer's clock; 0 if unknown."""

    def count(self, applied: int) -> int:
        """How many epochs are later than ``applied``."""

    def rows(self, applied: int) -> int | None:
        """Their changed rows; None if unknown."""

    def oldest(self, applied: int) -> Epoch | None:
        """The first epoch after ``applied``; None if there is none."""

    def stopping(self, applied: int) -> Epoch | None:
        """The first epoch after ``applied`` that stops the build; None if none is known."""

    def commit(self, version: int) -> CommitId | None:
        """The identity of a version's commit; None if it is unknown, or deleted."""

    def upto(self, head: int) -> Ahead:
        """As if ``head``, not before ``after``, was the newest epoch."""


@dataclass(frozen=True, slots=True)
class Glance:
    """The source's head, and of the epochs after ``after`` the first, and the first that stops the build.

    Of the first one only the time is known, or its error if its commit was deleted.
    """

    table_id: str
    head: int
    after: int
    first: Epoch | None = None
    stops: Epoch | None = None
    kept: int | None = None
    """Milliseconds for which the source keeps an epoch readable; None if unknown."""
    commits: tuple[CommitId, ...] = ()
    """The identities of the commits that were asked for, as far as they are there."""

    @property
    def latest(self) -> int:
        return 0 if self.first is None else self.first.at

    def count(self, applied: int) -> int:
        return max(self.head - applied, 0)

    def rows(self, applied: int) -> int | None:
        return None if self.count(applied) else 0

    def oldest(self, applied: int) -> Epoch | None:
        if applied != self.after:
            raise ValueError(f"only the epoch after {self.after} was looked at, not the one after {applied}")
        return self.first

    def stopping(self, applied: int) -> Epoch | None:
        return self.stops if self.stops is not None and self.stops.number > applied else None

    def commit(self, version: int) -> CommitId | None:
        return next((commit for commit in self.commits if commit.version == version), None)

    def upto(self, head: int) -> Glance:
        """As if ``head``, not before ``after``, was the newest epoch."""
        first = self.first if head > self.after else None
        stops = self.stops if self.stops is not None and self.stops.number <= head else None
        return replace(self, head=head, first=first, stops=stops)
