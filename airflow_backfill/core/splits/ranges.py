"""Splits as ranges of the key, for a build that pins no epoch.

A border is a prefix of a key: its first columns as SQL literals, written and sorted by Spark. This module does not
compare borders. Split i has the keys after ``borders[i - 1]`` up to ``borders[i]``, including keys that begin with
``borders[i]``. The first split has no lower border, the last one no upper border.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from airflow_backfill.core.errors import RecordInvalid
from airflow_backfill.core.splits.position import Consumed, Position
from airflow_backfill.core.splits.splits import Splits, rows_of

Key = tuple[str, ...]
"""A prefix of a key as SQL literals. The empty prefix sorts before every key."""


@dataclass(frozen=True, slots=True)
class AtKey(Position):
    """The rows of the range up to ``key``, inclusive, stand at ``epoch``; ``chunks`` counts the reads."""

    epoch: int
    chunks: int
    key: Key = ()

    @property
    def rank(self) -> tuple[int, ...]:
        return (self.epoch, -1, self.chunks)

    @property
    def newest_epoch(self) -> int:
        return self.epoch

    @property
    def begun(self) -> bool:
        return self.chunks > 0

    @property
    def read(self) -> bool:
        return False

    def may_become(self, after: Position) -> bool:
        if not isinstance(after, AtKey):
            return isinstance(after, Consumed)
        # Only Spark can compare keys. This checks that a new chunk has a new key.
        if after.chunks == self.chunks:
            return after.key == self.key
        return after.chunks == self.chunks + 1 and after.key not in (self.key, ())

    def to_json(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "chunks": self.chunks, "key": list(self.key)}

    @staticmethod
    def from_json(value: dict[str, Any]) -> AtKey | None:
        match value:
            case {"epoch": int(epoch), "chunks": int(chunks), "key": list(key), **more} if not more:
                named = all(isinstance(part, str) and part for part in key) and bool(key) == (chunks > 0)
                return AtKey(epoch, chunks, tuple(key)) if named and epoch >= 0 and chunks >= 0 else None
        return None


@dataclass(frozen=True, slots=True)
class KeyRanges(Splits):
    borders: tuple[Key, ...]
    bytes: int
    """Size of the source's data files at the time of the plan."""
    rows: int | None

    def __len__(self) -> int:
        return len(self.borders) + 1

    @property
    def sound(self) -> bool:
        """Whether every border is a key and differs from its neighbour."""
        texts = all(key and all(isinstance(part, str) and part for part in key) for key in self.borders)
        return texts and all(a != b for a, b in pairwise(self.borders))

    def low(self, split: int) -> Key:
        """The border before a split."""
        return self.borders[split - 1] if split else ()

    def reached(self, positions: Sequence[Position]) -> tuple[int, Key]:
        """The first incomplete range, and the key up to which everything is read: ranges are read in order. If all are
        complete: the number of ranges, and the empty key.
        """
        for split, position in enumerate(positions):
            if isinstance(position, AtKey):
                return split, position.key or self.low(split)
        return len(self), ()

    def first(self, epoch: int) -> tuple[Position, ...]:
        return (AtKey(epoch, 0),) * len(self)

    def counts(self, split: int, position: Position) -> Mapping[str, int]:
        chunks = {"chunks read": position.chunks} if isinstance(position, AtKey) else {}
        if self.rows is None:
            return chunks
        # The plan cuts ranges of about the same size. Records count the rows of rounds, not of ranges.
        rows = self.rows * (split + 1) // len(self) - self.rows * split // len(self)
        return chunks | {f"{rows_of(position)} (about)": rows}

    def check_standing(self, positions: tuple[Position, ...], epoch: int) -> None:
        """A round takes all ranges to one epoch, at or after the planned one."""
        epochs = {position.epoch for position in positions if isinstance(position, (AtKey, Consumed))}
        strange = any(not isinstance(position, (AtKey, Consumed)) for position in positions)
        if strange or len(epochs) != 1 or min(epochs) < epoch:
            raise RecordInvalid(f"ranges stand at epochs {sorted(epochs)}, planned at {epoch}", epochs=sorted(epochs))

    def to_json(self) -> dict[str, Any]:
        return {"keys": [list(key) for key in self.borders], "bytes": self.bytes, "rows": self.rows}

    @staticmethod
    def from_json(value: dict[str, Any]) -> KeyRanges | None:
        if "keys" not in value:
            return None
        return KeyRanges(tuple(tuple(key) for key in value["keys"]), value["bytes"], value["rows"])
