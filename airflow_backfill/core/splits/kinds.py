"""Which kinds of splits and positions plans and records may hold: those of the package, and those that are registered.

A document says its kind by its fields: a kind that is registered needs names that no other kind has.
"""

from __future__ import annotations

from typing import Any

from airflow_backfill.core.errors import RecordInvalid
from airflow_backfill.core.splits.files import AtFile, FileSplits
from airflow_backfill.core.splits.partitions import AtOffset, Partitions
from airflow_backfill.core.splits.position import Consumed, InEpoch, Position
from airflow_backfill.core.splits.ranges import AtKey, KeyRanges
from airflow_backfill.core.splits.splits import Splits

_SPLITS: list[type[Splits]] = [FileSplits, KeyRanges, Partitions]
_POSITIONS: list[type[Position]] = [Consumed, InEpoch, AtFile, AtKey, AtOffset]


def register(splits: type[Splits], *positions: type[Position]) -> None:
    """Let plans hold such splits, and records such positions."""
    _SPLITS.append(splits)
    _POSITIONS.extend(positions)


def position_from_json(value: Any) -> Position:
    """The position that ``value`` says; RecordInvalid if it is none."""
    sound = isinstance(value, dict) and bool not in map(type, value.values())
    for kind in _POSITIONS if sound else ():
        found = kind.from_json(value)
        if found is not None:
            return found
    raise RecordInvalid(f"not a position: {value!r}", value=repr(value)[:200])


def splits_from_json(value: dict[str, Any]) -> Splits:
    """The splits that ``value`` says; RecordInvalid if they are of no kind."""
    for kind in _SPLITS:
        found = kind.from_json(value)
        if found is not None:
            return found
    raise RecordInvalid(f"not splits of a plan: {repr(value)[:200]}", value=repr(value)[:200])
