"""The ranges of keys of an arrangement, as its records move them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tests.simulation.invariant import WHOLE, must
from tests.simulation.source import transform
from tests.simulation.target import Bag

Range = tuple[int, int, int | None]
"""Epoch, chunks, and the greatest key read (None: none, or all of a range that is complete)."""


def move(ranges: list[Range], progress: dict[int, tuple[int, int]], positions: Sequence[Mapping[str, Any]]) -> None:
    """All ranges stand at one epoch that never goes back; chunks grow one by one, with their keys."""
    must(len({p["epoch"] for p in positions}) == 1, "ranges stand at different epochs")
    for split, (before, p) in enumerate(zip(ranges, positions, strict=True)):
        epoch, chunks = p["epoch"], p.get("chunks", before[1])
        key = int(p["key"][0]) if p.get("key") else None
        must(epoch >= before[0], f"range {split} went back from epoch {before[0]} to {epoch}")
        if "key" not in p:
            progress[split] = (epoch, WHOLE)
        else:
            must(progress[split] == (-1, 0), f"range {split} was complete and is not any more")
            moved = chunks == before[1] + 1 and key is not None and (before[2] is None or key > before[2])
            must(moved or (chunks, key) == before[1:], f"range {split} went from {before} to {p}")
        ranges[split] = (epoch, chunks, key)


def content(
    ranges: Sequence[Range],
    progress: Mapping[int, tuple[int, int]],
    borders: Sequence[int],
    rows: Mapping[int, Any],
) -> Bag:
    """Those of the source's ``rows`` that the ranges hold, as far as they are read."""
    held = {}
    for key, value in transform(rows).items():
        split = sum(border < key for border in borders)
        upto = ranges[split][2]
        if progress[split][1] == WHOLE or (upto is not None and key <= upto):
            held[key] = value
    return Counter(held.items())
