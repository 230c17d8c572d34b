"""A source's log: what a build asks of it without reading rows, in any table format."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from airflow_backfill.core.model.plan import Plan, SourceFacts
from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.core.source.epoch import Epoch
from airflow_backfill.core.source.glance import Glance
from airflow_backfill.core.source.view import SourceView
from airflow_backfill.core.values.retention import Retention


@dataclass(frozen=True, slots=True)
class Admitted:
    """A source that can be followed, at its newest epoch."""

    facts: SourceFacts
    retention: Retention


class SourceWatch(Protocol):
    """Watches the source of one plan."""

    def view(self, after: int) -> SourceView:
        """The source now, with every epoch after ``after``. Reads each commit once."""

    def glance(self, after: int, commits: Iterable[int] = ()) -> Glance:
        """The source now, for a task that only waits: reads no more for a million pending epochs than for one.

        ``commits`` are versions whose identities are needed. No epoch that stops the build is looked for.
        """

    def stopped(self, source: Glance, after: int) -> Glance:
        """The glance with the first epoch after ``after`` that stops the build. Reads each commit once, ever."""


class SourceLog(Protocol):
    """The log of a table with numbered, committed epochs."""

    def admit(self, spec: BackfillSpec) -> Admitted:
        """The source at its newest epoch. SourceNotDelta, UnsupportedTable, RecordInvalid or FeedOff if it cannot be
        followed. A chain may be without a feed: its first epoch that does more than add rows stops it.
        """

    def recent(self, upto: int, count: int) -> Sequence[Epoch]:
        """At most ``count`` epochs up to ``upto``, oldest first, without deleted ones."""

    def watch(self, plan: Plan) -> SourceWatch:
        """Watch the source for this plan."""
