"""The interface of every kind of splits into which a plan cuts the source."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_backfill.core.splits.position import Position, together


class Splits(ABC):
    """The splits of one plan, all of one kind; ``len()`` is their planned number."""

    __slots__ = ()

    landing: ClassVar[bool] = False
    """Whether the source is a landing table: rows are only added, and the last record of a key counts."""
    recoverable: ClassVar[bool] = True
    """Whether the epoch alone says where the target stands, so that a build can go on without its records."""
    grows: ClassVar[bool] = False
    """Whether splits may appear that are not in the plan."""

    @abstractmethod
    def __len__(self) -> int: ...

    if TYPE_CHECKING:  # fields of some kinds, computed by others

        @property
        def bytes(self) -> int:
            """Bytes to read, as planned."""

        @property
        def rows(self) -> int | None:
            """Rows to read, as planned; None if unknown."""

    @property
    @abstractmethod
    def sound(self) -> bool:
        """Whether a planner can have made these splits."""

    @abstractmethod
    def first(self, epoch: int) -> tuple[Position, ...]:
        """The positions before anything is read, in a build planned at ``epoch``."""

    def read(self, positions: tuple[Position, ...]) -> bool:
        """Whether only the source's log is left to read."""
        return together(positions)

    def widened(self, positions: tuple[Position, ...], count: int, epoch: int) -> tuple[Position, ...]:
        """``positions``, extended to at least ``count`` splits if splits may appear later."""
        return positions

    @abstractmethod
    def check_standing(self, positions: tuple[Position, ...], epoch: int) -> None:
        """Raise RecordInvalid unless a build planned at ``epoch`` can have these positions while it reads."""

    def objection(self, split: int, before: Position, after: Position, epoch: int) -> str | None:
        """What is wrong with a move forward; None if it is legal."""
        return None

    @abstractmethod
    def to_json(self) -> dict[str, Any]: ...

    @staticmethod
    @abstractmethod
    def from_json(value: dict[str, Any]) -> Splits | None:
        """The splits in ``value``; None if they are of another kind."""
