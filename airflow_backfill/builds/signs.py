"""How long this process has seen no newer sign of life of an attempt, by its own clock.

Two machines' clocks tell that only to within the minutes by which one of them may be wrong. Whoever looks again, as the
page's API server and ``status --watch`` do, needs one clock: what is still the newest sign has no newer one.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock

MOST = 10_000
"""Attempts that are remembered: those that were looked at last."""


@dataclass
class Signs:
    clock: Callable[[], float] = time.monotonic
    """In seconds."""
    _seen: OrderedDict[str, tuple[int, float]] = field(default_factory=OrderedDict)
    """By the name of an attempt: its newest sign, and when that was seen first."""
    _lock: Lock = field(default_factory=Lock)

    def unchanged_ms(self, attempt: str, sign: int) -> int:
        """For how many milliseconds ``sign`` has been the newest sign of life that was seen of the attempt."""
        now = self.clock()
        with self._lock:
            known = self._seen.pop(attempt, None)
            if known is None or known[0] < sign:
                known = sign, now
            self._seen[attempt] = known
            if len(self._seen) > MOST:
                self._seen.popitem(last=False)
        return round(1000 * (now - known[1]))


SIGNS = Signs()
"""What this process has seen."""
