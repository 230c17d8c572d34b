"""Interleaved runs of two or more contenders, and what their medians come to."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median

Timed = Callable[[], object]
Contender = Callable[[int], Timed]
"""Prepares run n, and returns what is timed."""


@dataclass
class Race:
    """Each contender is prepared without being timed, then run; all of them once a round."""

    title: str
    contenders: Mapping[str, Contender]
    once: frozenset[str] = frozenset()
    """Contenders so slow that one run, in the warm session, is enough to know."""
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def run(self, rounds: int, warming: int = 1) -> Race:
        """The first ``warming`` rounds do not count: until Java has compiled what a contender runs, it gets faster
        from round to round.
        """
        for number in range(1 - warming, rounds + 1):
            for name, prepare in self.contenders.items():
                if name in self.once and number != 1:
                    continue
                timed = prepare(number)
                begun = time.perf_counter()
                timed()
                took = time.perf_counter() - begun
                if number > 0:
                    self.seconds.setdefault(name, []).append(took)
                print(f"  {self.title}: {name} {took:.2f} s{'' if number > 0 else ' (warming up)'}", flush=True)
        return self

    def median(self, name: str) -> float:
        return median(self.seconds[name])

    def row(self, ours: str, other: str, bound: str, *, named: bool = False) -> str:
        """One line of the table: both medians, their ratio, and the bound that was set."""
        title = f"{self.title}: {ours}" if named else self.title
        runs = (
            ", ".join(f"{s:.1f}" for s in self.seconds[ours]),
            ", ".join(f"{s:.1f}" for s in self.seconds[other]),
        )
        ratio = self.median(ours) / self.median(other)
        return (
            f"| {title} | {other} | {self.median(ours):.2f} ({runs[0]}) | {self.median(other):.2f} ({runs[1]}) "
            f"| {ratio:.2f} | {bound} |"
        )
