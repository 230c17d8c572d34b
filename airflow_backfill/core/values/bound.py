"""The bound on pending epochs, and when the log does not converge.

The bound starts at the epochs that are pending when the snapshot is sealed. Each round lowers it by at least one
(docs/behaviours/snapshot.md, S000.32). Writers cannot be stopped, so rounds that leave more pending than the bound
allows are counted; too many in a row raise NotConverging with the numbers. The bound is in the record: a retry does not
raise it, and counts its own rounds only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from airflow_backfill.core.errors import NotConverging, RecordInvalid
from airflow_backfill.core.values.document import count, parts

PATIENCE_ROUNDS = 10
"""Rounds in a row that may leave more pending than the bound allows."""


@dataclass(frozen=True, slots=True)
class Bound:
    start: int
    value: int
    stalled: int = 0
    """Rounds in a row that left more pending than the bound allows, and no less than any earlier round."""
    least: int | None = None
    """The fewest epochs that a round of this attempt left pending; None before its first round."""

    @staticmethod
    def initial(pending: int) -> Bound:
        return Bound(start=pending, value=pending)

    def take(self, pending_after: int) -> Bound:
        """The bound after a round that left ``pending_after`` epochs."""
        allowed = max(self.value - 1, 0)
        least = pending_after if self.least is None else min(self.least, pending_after)
        contracted = pending_after <= allowed or least != self.least
        return Bound(self.start, min(pending_after, allowed), 0 if contracted else self.stalled + 1, least)

    def measured(self, pending: int) -> Bound:
        """The bound when a round begins with ``pending`` epochs: those that the last round left, and those committed
        since. The first round of an attempt only sets ``least``.
        """
        return replace(self, least=pending) if self.least is None else self.take(pending)

    def renewed(self) -> Bound:
        """The bound for a new attempt, which counts only its own rounds: commits from the time without an attempt do
        not count against it.
        """
        return Bound(self.start, self.value)

    def to_json(self) -> dict[str, int | None]:
        return {"start": self.start, "value": self.value, "stalled": self.stalled, "least": self.least}

    @staticmethod
    def from_json(value: Any) -> Bound:
        try:
            start, allowed, stalled, least = parts(value, "start", "value", "stalled", "least")
            bound = Bound(count(start), count(allowed), count(stalled), None if least is None else count(least))
        except ValueError:
            bound = None
        if bound is not None and bound.value <= bound.start:
            return bound
        raise RecordInvalid(f"not a bound of pending epochs: {value!r}", value=repr(value)[:200])


def check_converging(bound: Bound, pending: int, patience: int, rate_limited: bool) -> None:
    """Raise NotConverging when ``patience`` rounds in a row did not lower the number of pending epochs."""
    if bound.stalled < patience:
        return
    cause = "the throttle is too slow" if rate_limited else "writers commit faster than the build applies"
    cure = "lift it (table-backfill throttle TARGET none)" if rate_limited else "slow them down or add Spark cores"
    raise NotConverging(
        f"{bound.stalled} rounds in a row did not lower the number of pending epochs: {pending} are pending, "
        f"{bound.value} allowed, {bound.start} when the snapshot was sealed; {cause}: {cure}, then clear the task",
        pending=pending,
        bound=bound.value,
        start=bound.start,
        rounds=bound.stalled,
        throttled=rate_limited,
    )
