"""Splits as ranges of the key, for a build that pins nothing (seed 004).

A border is a prefix of a key: the values of its first columns as SQL literals, written by Spark, in whose order they
stand. Here they are never compared. Split i holds the keys after ``borders[i - 1]`` up to ``borders[i]``, a key that
begins with the border included; the first and the last split are open to their sides.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

Key = tuple[str, ...]
"""A prefix of a key as SQL literals; the empty one is before every key."""


@dataclass(frozen=True, slots=True)
class KeyRanges:
    borders: tuple[Key, ...]
    bytes: int
    """Size of the source's data files when it was planned."""
    rows: int | None

    def __len__(self) -> int:
        return len(self.borders) + 1

    @property
    def sound(self) -> bool:
        """Whether every border is a key, and no two neighbours are the same one."""
        texts = all(key and all(isinstance(part, str) and part for part in key) for key in self.borders)
        return texts and all(a != b for a, b in pairwise(self.borders))

    def low(self, split: int) -> Key:
        """The border before a split."""
        return self.borders[split - 1] if split else ()
