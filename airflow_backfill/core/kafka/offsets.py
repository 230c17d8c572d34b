"""Offsets of one partition: 64-bit integers, compared as numbers (S001.10), and half-open ranges of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

MAX = 2**63 - 1


def is_offset(value: Any) -> bool:
    """Whether ``value``, any JSON, is a valid offset of Kafka."""
    return type(value) is int and 0 <= value <= MAX


@dataclass(frozen=True, slots=True)
class Offsets:
    """The offsets ``start <= offset < stop``, at least one. Some may have no record."""

    start: int
    stop: int

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.stop:
            raise ValueError(f"not a range of offsets: [{self.start}, {self.stop})")

    def __len__(self) -> int:
        return self.stop - self.start

    def __contains__(self, offset: int) -> bool:
        return self.start <= offset < self.stop

    @property
    def last(self) -> int:
        return self.stop - 1


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of one partition that were read together: number of rows, least and greatest offset, both inclusive."""

    least: int
    greatest: int
    count: int

    def __post_init__(self) -> None:
        if not (0 <= self.least <= self.greatest and self.count >= 1):
            raise ValueError(f"not a batch: {self.count} rows in [{self.least}, {self.greatest}]")
