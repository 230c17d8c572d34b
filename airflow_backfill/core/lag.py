"""The bound on pending epochs, and when to say that the log is not converging.

The bound starts at what is pending when the snapshot is sealed and only ever shrinks, by at least one a round
(seeds 000 and 003, ``next_checkpoint_barrier``). The seeds end because they stop polling upstream; writers
here cannot be stopped, so a round that leaves more pending than the bound allows is counted, and too many of
them in a row are an error with numbers. The bound stands in the record: a retry does not enlarge it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_backfill.core.errors import NotConverging, RecordInvalid


@dataclass(frozen=True, slots=True)
class Bound:
    start: int
    value: int
    stalled: int = 0
    """Rounds in a row that left more pending than the bound allowed."""

    @staticmethod
    def initial(pending: int) -> Bound:
        return Bound(start=pending, value=pending)

    def take(self, pending_after: int) -> Bound:
        """The bound after a round that left ``pending_after`` epochs."""
        allowed = max(self.value - 1, 0)
        contracted = pending_after <= allowed
        return Bound(self.start, min(pending_after, allowed), 0 if contracted else self.stalled + 1)

    def to_json(self) -> list[int]:
        return [self.start, self.value, self.stalled]

    @staticmethod
    def from_json(value: Any) -> Bound:
        match value:
            case [int(start), int(bound), int(stalled)] if min(start, bound, stalled) >= 0 and bound <= start:
                if bool not in map(type, value):
                    return Bound(start, bound, stalled)
        raise RecordInvalid(f"not a bound: {value!r}", value=repr(value)[:200])


def check_converging(bound: Bound, pending: int, patience: int, rate_limited: bool) -> None:
    """Raise NotConverging when ``patience`` rounds in a row did not contract the pending epochs."""
    if bound.stalled < patience:
        return
    cause = "the throttle holds the log back" if rate_limited else "the source is committed to faster than applied"
    raise NotConverging(
        f"{bound.stalled} rounds in a row did not contract: {pending} epochs pending, allowed {bound.value}, "
        f"{bound.start} when the snapshot was sealed; {cause}",
        pending=pending,
        bound=bound.value,
        start=bound.start,
        rounds=bound.stalled,
        throttled=rate_limited,
    )
