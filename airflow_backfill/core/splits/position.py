"""Positions: how far a split is.

A position has only the fields of its variant. Positions of one split are totally ordered and only grow. ``Consumed(e)``
means that the split stands at epoch e: the target has everything up to e. ``InEpoch(e, n, m)`` means that the target
also has the first n of m key buckets of epoch e, but does not claim e yet. While a split is still read, its position is
of the split's own kind, which has a module of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from airflow_backfill.core.errors import PositionRegressed


class Position(ABC):
    """The progress of a split. Immutable; compared by kind and values."""

    __slots__ = ()

    @property
    @abstractmethod
    def rank(self) -> tuple[int, ...]:
        """The place in the order of positions of a split. Equal ranks are equal progress."""

    @property
    def complete(self) -> int | None:
        """The epoch of a split that is completely read; None while it is read or is between epochs."""
        return None

    @property
    @abstractmethod
    def newest_epoch(self) -> int | None:
        """The last epoch whose changes are, at least in part, in the target; None before the first."""

    @property
    def begun(self) -> bool:
        """Whether any row of the split is in the target."""
        return True

    @property
    def read(self) -> bool:
        """Whether the split is completely read, so that only the source's log is left."""
        return True

    @property
    def unknown(self) -> bool:
        """Whether only the existence of the split is known."""
        return False

    @property
    def part(self) -> InEpoch | None:
        """This position if it is within an epoch that is applied in part, else None."""
        return None

    @abstractmethod
    def may_become(self, after: Position) -> bool:
        """Whether ``after``, of the same or a later rank, may follow."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Named fields, unlike those of any other kind. The name ``splits`` is reserved."""

    @staticmethod
    @abstractmethod
    def from_json(value: dict[str, Any]) -> Position | None:
        """The position in ``value``; None if ``value`` is of another kind."""


@dataclass(frozen=True, slots=True)
class InEpoch(Position):
    epoch: int
    done: int
    of: int

    @property
    def rank(self) -> tuple[int, ...]:
        return (self.epoch, 0, self.done)

    @property
    def newest_epoch(self) -> int:
        return self.epoch

    @property
    def part(self) -> InEpoch:
        return self

    def may_become(self, after: Position) -> bool:
        return after.newest_epoch == self.epoch and (after.part is None or after.part.of == self.of)

    def to_json(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "parts_done": self.done, "parts": self.of}

    @staticmethod
    def from_json(value: dict[str, Any]) -> InEpoch | None:
        match value:
            case {"epoch": int(epoch), "parts_done": int(done), "parts": int(of), **more} if not more:
                return InEpoch(epoch, done, of) if epoch >= 0 and 0 < done < of else None
        return None


@dataclass(frozen=True, slots=True)
class Consumed(Position):
    epoch: int

    @property
    def rank(self) -> tuple[int, ...]:
        return (self.epoch, 1, 0)

    @property
    def complete(self) -> int:
        return self.epoch

    @property
    def newest_epoch(self) -> int:
        return self.epoch

    def may_become(self, after: Position) -> bool:
        return after.part is not None or isinstance(after, Consumed)

    def to_json(self) -> dict[str, Any]:
        return {"epoch": self.epoch}

    @staticmethod
    def from_json(value: dict[str, Any]) -> Consumed | None:
        match value:
            case {"epoch": int(epoch), **more} if not more and epoch >= 0:
                return Consumed(epoch)
        return None


def newest_epoch(positions: Iterable[Position]) -> int | None:
    """The last epoch whose changes are, at least in part, in the target; None before the first."""
    return max((p.newest_epoch for p in positions if p.newest_epoch is not None), default=None)


def oldest_epoch(positions: Iterable[Position], otherwise: int) -> int:
    """The oldest epoch among the splits; ``otherwise`` if no split is at an epoch."""
    return min((p.newest_epoch for p in positions if p.newest_epoch is not None), default=otherwise)


def later(one: Position, other: Position) -> Position:
    """The later of two positions of one split."""
    return one if one.rank >= other.rank else other


def applied_by(positions: tuple[Position, ...]) -> int | None:
    """The epoch of the whole target. An epoch that is applied in part does not count."""
    first = positions[0]
    return first.complete if first.part is None else first.part.epoch - 1


def together(positions: tuple[Position, ...]) -> bool:
    """Whether all splits are read, and are at the same epoch or the same part of it."""
    if positions[0].part is not None:
        return len(set(positions)) == 1
    stands = {position.complete for position in positions if not position.unknown}
    return len(stands) == 1 and None not in stands


def check_successor(split: int, before: Position, after: Position) -> None:
    """Raise PositionRegressed unless ``after`` may follow ``before`` (standing still is allowed)."""
    if after.rank < before.rank or not before.may_become(after):
        raise PositionRegressed(
            f"split {split} cannot go from {before} to {after}",
            split=split,
            before=before.to_json(),
            after=after.to_json(),
        )
