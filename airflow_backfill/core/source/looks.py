"""When an attempt has looked at the source: how old an epoch is at most, whatever the clock of its writer says.

The clocks of a driver and of the source's writers may differ by hours. Two facts need one clock only: an epoch is
younger than the last look that did not show it, and older than an epoch after it.
"""

from __future__ import annotations

from dataclasses import dataclass

MOST = 1_000
"""Looks that are kept, the last ones. Epochs that came before them are old by any clock."""


@dataclass(frozen=True, slots=True)
class Looks:
    seen: tuple[tuple[int, int], ...] = ()
    """Heads of the source, rising, each with the time of the last look that found it; milliseconds since 1970."""

    def found(self, head: int, after: int, now: int) -> Looks:
        """The looks with one more, which began ``now``. Epochs up to ``after`` are of no interest any more. Looks that
        seem to be in the future are forgotten: the clock was set back.
        """
        kept = [(known, at) for known, at in self.seen if known < head and at <= now]
        first = max((place for place, (known, _) in enumerate(kept) if known <= after), default=0)
        return Looks((*kept[first:], (head, now))[-MOST:])

    def age(self, number: int, at: int, latest: int, now: int) -> int:
        """For how many milliseconds an epoch has been committed, as far as that is known: by the clock of its writer,
        which said ``at``, but no longer than since the last look that did not show it. ``latest``: what that clock said
        at the newest known epoch; 0 if unknown.
        """
        before = max((looked for head, looked in self.seen if head < number), default=None)
        by_clocks = max(now, latest) - at
        return by_clocks if before is None else min(by_clocks, now - before)


NEVER = Looks()
"""Of whoever looks for the first time."""
