"""How far a partition of a topic is: its history is read (``Backfilling``), the landing table is behind it
(``CatchingUp``), or only the landing table is read (``Finished``). A split only moves forward (S001.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_backfill.core.errors import RecordInvalid
from airflow_backfill.core.kafka.offsets import is_offset


@dataclass(frozen=True, slots=True)
class Backfilling:
    """History is read from Kafka. ``offset`` is the last one backfilled; None for none."""

    offset: int | None = None


@dataclass(frozen=True, slots=True)
class CatchingUp:
    """The backfill has stopped after ``offset``; the landing table has not reached it yet."""

    offset: int


@dataclass(frozen=True, slots=True)
class Finished:
    """All further rows come from the landing table."""


State = Backfilling | CatchingUp | Finished


def rank(state: State) -> int:
    """The place of a state in their order: the rank of a split never decreases."""
    match state:
        case Backfilling():
            return 0
        case CatchingUp():
            return 1
        case Finished():
            return 2


def to_json(state: State) -> list[Any]:
    match state:
        case Backfilling(offset):
            return ["backfilling", offset]
        case CatchingUp(offset):
            return ["catching_up", offset]
        case Finished():
            return ["finished"]


def from_json(value: Any) -> State:
    """The state in ``value``; RecordInvalid for anything that ``to_json`` does not write."""
    match value:
        case ["backfilling", offset] if offset is None or is_offset(offset):
            return Backfilling(offset)
        case ["catching_up", offset] if is_offset(offset):
            return CatchingUp(offset)
        case ["finished"]:
            return Finished()
    raise RecordInvalid(f"not a state of a split: {value!r}"[:200], value=repr(value)[:200])
