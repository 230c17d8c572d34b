"""How long rounds take, and how much of its size the next one takes for that.

A round that takes minutes loses minutes when it is killed. But half a round is worth nothing if it takes as long: where
every round reads the same files, however little it takes of them. So a round that took long is followed by half of it,
and that decides.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from airflow_backfill.core.values.interruption import PATIENCE
from airflow_backfill.core.values.round_size import RoundSize

LONG = 60_000
"""Milliseconds that a round should not take."""


@dataclass(frozen=True, slots=True)
class Pace:
    """What an attempt knows of its own rounds."""

    halvings: int = 0
    since: int | None = None
    """When the round was begun that has not been measured."""
    before: int | None = None
    """What a round of twice this size took, if that is why it was halved last."""
    lost: int = 0
    """Units in a row that a command interrupted."""
    settled: bool = False
    """Halves take as long: nothing is gained by them."""

    @property
    def spared(self) -> bool:
        """Whether so many were lost that the next one is to be let pass."""
        return self.lost >= PATIENCE

    def interrupted(self) -> Pace:
        return replace(self, since=None, lost=self.lost + 1)

    def landed(self, begun: int) -> Pace:
        """A round with rows landed, that was begun at this time."""
        return replace(self, since=begun, lost=0)

    def measured(self, now: int) -> Pace:
        """After the round that was begun, if one was."""
        if self.since is None:
            return self
        took, rested = now - self.since, replace(self, since=None, before=None)
        if self.before is not None and 4 * took > 3 * self.before:
            return replace(rested, halvings=self.halvings - 1, settled=True)
        if took > LONG and not self.settled:
            return replace(rested, halvings=self.halvings + 1, before=took)
        if took < LONG // 4:
            return replace(rested, halvings=max(self.halvings - 1, 0))
        return rested

    def of(self, size: RoundSize) -> RoundSize:
        """What a round may take that else takes ``size``."""
        parts = 1 << self.halvings
        return replace(
            size,
            bytes=-(-size.bytes // parts),
            rows=-(-size.rows // parts),
            epochs=-(-size.epochs // parts),
        )
