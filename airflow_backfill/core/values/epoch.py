"""Epochs: committed versions of the source, and half-open ranges of them.

Always version numbers, never timestamps: a copied table has other timestamps, and clocks can jump.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from airflow_backfill.core.values.document import count, parts


@dataclass(frozen=True, slots=True, order=True)
class EpochRange:
    """The epochs ``start <= e < stop``. May be empty, never negative."""

    start: int
    stop: int

    def __post_init__(self) -> None:
        if self.start < 0 or self.stop < self.start:
            raise ValueError(f"not a range of epochs: [{self.start}, {self.stop})")

    def __len__(self) -> int:
        return self.stop - self.start

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.start, self.stop))

    def __contains__(self, epoch: int) -> bool:
        return self.start <= epoch < self.stop

    @property
    def last(self) -> int:
        """The greatest epoch. ValueError if the range is empty."""
        if self.start == self.stop:
            raise ValueError(f"an empty range has no last epoch: [{self.start}, {self.stop})")
        return self.stop - 1

    def to_json(self) -> dict[str, int]:
        return {"start": self.start, "stop": self.stop}

    @staticmethod
    def from_json(value: Any) -> EpochRange:
        """Raises ValueError if ``value`` is no range of epochs."""
        return EpochRange(*(count(number) for number in parts(value, "start", "stop")))

    @staticmethod
    def after(applied: int, through: int) -> EpochRange:
        """The epochs later than ``applied``, up to and including ``through``."""
        return EpochRange(applied + 1, max(applied, through) + 1)
