"""How long rounds take, and the size of the next one.

A round that takes minutes loses minutes when it is killed. But a smaller round gains nothing if it takes as long, which
happens when every round reads the same files. So a long round is followed by one of half its size. If that takes as
long, the size goes back and stays.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from airflow_backfill.core.values.interruption import MAX_INTERRUPTED_ROUNDS
from airflow_backfill.core.values.round_size import RoundSize

LONG_ROUND_MS = 60_000
"""A round should take less."""


@dataclass(frozen=True, slots=True)
class Pace:
    """What an attempt knows of its own rounds. Times are milliseconds."""

    halvings: int = 0
    since: int | None = None
    """When the round that is not measured yet began."""
    before: int | None = None
    """How long the round of twice this size took, if it was just halved."""
    lost: int = 0
    """Rounds in a row that a command interrupted."""
    settled: bool = False
    """Half a round takes as long: it is not halved again."""

    @property
    def spared(self) -> bool:
        """Whether so many rounds were interrupted that only a cancel may interrupt the next one."""
        return self.lost >= MAX_INTERRUPTED_ROUNDS

    def interrupted(self) -> Pace:
        return replace(self, since=None, lost=self.lost + 1)

    def landed(self, begun: int) -> Pace:
        """A round with rows that began at ``begun`` was committed."""
        return replace(self, since=begun, lost=0)

    def measured(self, now: int) -> Pace:
        """The pace after the round that ends ``now``, if one is running."""
        if self.since is None:
            return self
        took, rested = now - self.since, replace(self, since=None, before=None)
        if self.before is not None and 4 * took > 3 * self.before:
            return replace(rested, halvings=self.halvings - 1, settled=True)
        if took > LONG_ROUND_MS and not self.settled:
            return replace(rested, halvings=self.halvings + 1, before=took)
        if took < LONG_ROUND_MS // 4:
            return replace(rested, halvings=max(self.halvings - 1, 0))
        return rested

    def of(self, size: RoundSize) -> RoundSize:
        """The size of the next round: ``size``, halved ``halvings`` times."""
        parts = 1 << self.halvings
        return replace(
            size,
            bytes=-(-size.bytes // parts),
            rows=-(-size.rows // parts),
            epochs=-(-size.epochs // parts),
        )
