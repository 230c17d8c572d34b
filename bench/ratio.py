"""Runs two or more contenders in turns, and compares their medians."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median

Timed = Callable[[], object]
Contender = Callable[[int], Timed]
"""Prepares run n, and returns the function to time."""


@dataclass
class Race:
    """Runs each contender once a round. Its preparation is not timed."""

    title: str
    contenders: Mapping[str, Contender]
    once: frozenset[str] = frozenset()
    """Slow contenders, which run only once, in the warm session."""
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def run(self, rounds: int, warm_up_rounds: int = 1) -> Race:
        """Run ``rounds`` after ``warm_up_rounds``, which do not count: until Java has compiled a contender's code, each
        round is faster than the last.
        """
        for number in range(1 - warm_up_rounds, rounds + 1):
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

    def row(self, ours: str, other: str, goal: str, *, named: bool = False) -> str:
        """One line of the table: both medians, their ratio, and the goal."""
        title = f"{self.title}: {ours}" if named else self.title
        runs = (
            ", ".join(f"{s:.1f}" for s in self.seconds[ours]),
            ", ".join(f"{s:.1f}" for s in self.seconds[other]),
        )
        ratio = self.median(ours) / self.median(other)
        return (
            f"| {title} | {other} | {self.median(ours):.2f} ({runs[0]}) | {self.median(other):.2f} ({runs[1]}) "
            f"| {ratio:.2f} | {goal} |"
        )
