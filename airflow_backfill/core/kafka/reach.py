"""How far the target reaches in one partition: which of its records the build has taken, and which it will take."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from airflow_backfill.core.kafka.offsets import MAX
from airflow_backfill.core.kafka.split import Split
from airflow_backfill.core.kafka.state import Backfilling


class Fate(str, Enum):
    """What becomes of a record of the topic."""

    BEFORE = "before"
    """It lies before the history's start (``topic.first``)."""
    TAKEN = "taken"
    """The target's row says what it says, unless a later record of its key does."""
    PENDING = "pending"
    """The build has not come to it yet."""
    MISSED = "missed"
    """It has not landed, although a later record of its partition has: nothing will take it."""
    LATER = "later"
    """It lies after the end that a build without a landing table pinned: it belongs to the stream after it."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Inclusive offsets of a partition; by default of one that the build does not know yet.

    Records before ``first`` belong to no history. Those up to ``seam`` came with the history, those up to ``landed``
    from the landing table. Those after ``last`` never come.
    """

    first: int = 0
    seam: int = -1
    landed: int = -1
    last: int = MAX

    @staticmethod
    def of(split: Split, planned: Split | None, *, alone: bool) -> Reach:
        """The reach of a partition whose committed state is ``split``. ``planned``: its state in the plan; None if it
        appeared later. ``alone``: there is no landing table.
        """
        first = 0 if planned is None else planned.scanned + 1
        last = MAX if not alone else -1 if planned is None else planned.end - 1
        if isinstance(split.state, Backfilling):
            return Reach(first, split.scanned, split.scanned, last)
        known = [-1 if split.cut is None else split.cut]
        known += [planned.landed] if planned is not None and planned.landed is not None else []
        seam = max(known)
        return Reach(first, seam, max(seam, -1 if split.landed is None else split.landed), last)
