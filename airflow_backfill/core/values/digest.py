"""The content of some rows as their number and one sum, so that rows can be compared without moving them.

The digest of rows is the sum of theirs modulo 2^128. The sum does not depend on the order, counts equal rows (with XOR
a pair would vanish), and rows that go can be subtracted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MODULUS = 1 << 128


@dataclass(frozen=True, slots=True)
class Digest:
    """The content of some rows: their number, and the sum of their digests. Negative if more rows go than come."""

    rows: int
    total: int

    def __add__(self, other: Digest) -> Digest:
        return Digest(self.rows + other.rows, (self.total + other.total) % MODULUS)

    def __neg__(self) -> Digest:
        return Digest(-self.rows, -self.total % MODULUS)

    def to_json(self) -> list[Any]:
        return [self.rows, f"{self.total:032x}"]

    @staticmethod
    def from_json(value: Any) -> Digest:
        """Raises ValueError if ``value`` is no digest."""
        match value:
            case [int(rows), str(total)]:
                return Digest(rows, int(total, 16))
        raise ValueError(f"not a digest: {value!r}")


NONE = Digest(0, 0)
"""The digest of no rows."""


def added(some: Mapping[int, Digest], others: Mapping[int, Digest]) -> dict[int, Digest]:
    """The digests of the groups of both."""
    return {group: some.get(group, NONE) + others.get(group, NONE) for group in some.keys() | others.keys()}
