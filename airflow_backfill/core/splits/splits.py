"""What a plan cuts the source into: the questions that every kind of split answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_backfill.core.splits.position import Position, together


class Splits(ABC):
    """The splits of one plan, all of one kind; ``len()`` is their number as they were planned."""

    __slots__ = ()

    landing: ClassVar[bool] = False
    """Whether the source is a landing table: it only gets rows, and of a key's records the last one counts."""
    recoverable: ClassVar[bool] = True
    """Whether the epoch alone says where the target stands, so that a build can go on without its records."""
    grows: ClassVar[bool] = False
    """Whether splits may appear that are in no plan."""

    @abstractmethod
    def __len__(self) -> int: ...

    if TYPE_CHECKING:  # fields of some kinds, computed by others

        @property
        def bytes(self) -> int:
            """What there is to read, as far as the plan knew it."""

        @property
        def rows(self) -> int | None:
            """Likewise; None if nobody counted."""

    @property
    @abstractmethod
    def sound(self) -> bool:
        """Whether a planner can have made them."""

    @abstractmethod
    def first(self, epoch: int) -> tuple[Position, ...]:
        """Where splits stand of which nothing is read, in a build that is planned at ``epoch``."""

    def read(self, positions: tuple[Position, ...]) -> bool:
        """Whether nothing has to be read any more but the source's log."""
        return together(positions)

    def widened(self, positions: tuple[Position, ...], count: int, epoch: int) -> tuple[Position, ...]:
        """``positions`` of at least ``count`` splits, where splits may appear later."""
        return positions

    @abstractmethod
    def check_standing(self, positions: tuple[Position, ...], epoch: int) -> None:
        """Raise RecordInvalid unless splits of a build planned at ``epoch`` can stand so while they are read."""

    def objection(self, split: int, before: Position, after: Position, epoch: int) -> str | None:
        """What is wrong with a move that does not go back; None if it is legal."""
        return None

    @abstractmethod
    def to_json(self) -> dict[str, Any]: ...

    @staticmethod
    @abstractmethod
    def from_json(value: dict[str, Any]) -> Splits | None:
        """The splits that ``value`` says, or None if they are of another kind."""
