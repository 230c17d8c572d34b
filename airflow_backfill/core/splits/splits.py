"""The splits of a source: what every kind of split has to answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_backfill.core.kafka.reach import Reach
from airflow_backfill.core.splits.position import Position, together

TYPICAL_FILE_BYTES = 32 << 20
"""Bytes of a data file, where their number is not known."""


class Splits(ABC):
    """The splits of one plan, all of one kind. ``len()`` is their number in the plan."""

    __slots__ = ()

    landing: ClassVar[bool] = False
    """Whether the source is a landing table: rows are only added, and the last record of a key counts."""
    recoverable: ClassVar[bool] = True
    """Whether an epoch alone describes the progress, so that a build can be recovered without its records."""
    grows: ClassVar[bool] = False
    """Whether splits may appear after the plan."""

    @abstractmethod
    def __len__(self) -> int: ...

    if TYPE_CHECKING:  # fields of some kinds, computed by others

        @property
        def bytes(self) -> int:
            """Bytes to read, as known to the plan."""

        @property
        def rows(self) -> int | None:
            """Rows to read, as known to the plan; None if unknown."""

    @property
    def data_files(self) -> int:
        """Data files of the source, as far as the plan knows."""
        return self.bytes // TYPICAL_FILE_BYTES

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """Name and type of each column of a record of a topic; empty for a table, whose log has its schema."""
        return ()

    def reaches(self, positions: Iterable[Position], *, alone: bool) -> Mapping[int, Reach]:
        """How far a target at these positions reaches in each partition of a topic. ``alone``: there is no landing
        table.
        """
        return {}

    @property
    @abstractmethod
    def sound(self) -> bool:
        """Whether a planner can have made these splits."""

    @abstractmethod
    def first(self, epoch: int) -> tuple[Position, ...]:
        """The first positions of a build that is planned at ``epoch``."""

    def read(self, positions: tuple[Position, ...]) -> bool:
        """Whether all splits are read, so that only the source's log is left."""
        return together(positions)

    def share(self, split: int, position: Position) -> float:
        """How much of a split is read, from 0 to 1; a half while it is read, if only Spark or Kafka could tell."""
        return 1.0 if position.read else 0.5 if position.begun else 0.0

    def counts(self, split: int, position: Position) -> Mapping[str, int]:
        """What position and plan tell of a split's snapshot, by what is counted. Counts of several splits add up."""
        return {}

    def widened(self, positions: tuple[Position, ...], count: int, epoch: int) -> tuple[Position, ...]:
        """``positions`` extended to at least ``count`` splits, if splits may appear later."""
        return positions

    @abstractmethod
    def check_standing(self, positions: tuple[Position, ...], epoch: int) -> None:
        """Raise RecordInvalid unless these positions are possible in the snapshot of a build planned at ``epoch``."""

    def objection(self, split: int, before: Position, after: Position, epoch: int) -> str | None:
        """Why a move from ``before`` to ``after`` is illegal; None if it is legal."""
        return None

    @abstractmethod
    def to_json(self) -> dict[str, Any]: ...

    @staticmethod
    @abstractmethod
    def from_json(value: dict[str, Any]) -> Splits | None:
        """The splits in ``value``; None if they are of another kind."""


def rows_of(position: Position) -> str:
    """What the rows of a split at ``position`` are called, where only those of all the split are known."""
    return "rows read" if position.read else "rows being read" if position.begun else "rows not started"
