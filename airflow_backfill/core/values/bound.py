"""The bound on pending epochs, and when to say that the log is not converging.

The bound starts at what is pending when the snapshot is sealed and only ever shrinks, by at least one a round
(docs/behaviours/snapshot.md, S000.32). RisingWave's executor ends because it stops polling upstream; writers
here cannot be stopped, so a round that leaves more pending than the bound allows is counted, and too many of
them in a row are an error with numbers. The bound stands in the record: a retry does not enlarge it, and counts its own
rounds.
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
    """Rounds in a row that left more pending than the bound allows, and no less than a round before them."""
    least: int | None = None
    """The least that a round of this attempt has left; None before its first round."""

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
        """The bound as a round begins when ``pending`` epochs are: what the round before it left untaken, and what
        was committed meanwhile. The first round of an attempt has none before it, and only sets the mark.
        """
        return replace(self, least=pending) if self.least is None else self.take(pending)

    def renewed(self) -> Bound:
        """The bound for a new attempt: only its own rounds count. What was committed while nobody worked is no fault of
        theirs, and an attempt that was started because the writers have slowed down is not over before its first one.
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
        raise RecordInvalid(f"not a bound: {value!r}", value=repr(value)[:200])


def check_converging(bound: Bound, pending: int, patience: int, rate_limited: bool) -> None:
    """Raise NotConverging when ``patience`` rounds in a row did not contract the pending epochs."""
    if bound.stalled < patience:
        return
    cause = "the throttle holds the log back" if rate_limited else "the source is committed to faster than applied"
    cure = "lift the throttle" if rate_limited else "slow its writers down or give Spark more cores"
    raise NotConverging(
        f"{bound.stalled} rounds in a row did not contract: {pending} epochs pending, allowed {bound.value}, "
        f"{bound.start} when the snapshot was sealed; {cause}: {cure}, then clear the task",
        pending=pending,
        bound=bound.value,
        start=bound.start,
        rounds=bound.stalled,
        throttled=rate_limited,
    )
