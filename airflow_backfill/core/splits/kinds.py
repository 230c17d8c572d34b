"""The kinds of splits and positions in plans and records: those of the package, and registered ones.

The fields of a document tell its kind, so a registered kind needs field names that no other kind has.
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
    """Register a kind of splits for plans, and its positions for records."""
    _SPLITS.append(splits)
    _POSITIONS.extend(positions)


def position_from_json(value: Any) -> Position:
    """The position in ``value``; RecordInvalid if it is not one of a known kind."""
    sound = isinstance(value, dict) and bool not in map(type, value.values())
    for kind in _POSITIONS if sound else ():
        found = kind.from_json(value)
        if found is not None:
            return found
    raise RecordInvalid(f"not a position: {value!r}", value=repr(value)[:200])


def splits_from_json(value: dict[str, Any]) -> Splits:
    """The splits in ``value``; RecordInvalid if they are not of a known kind."""
    for kind in _SPLITS:
        found = kind.from_json(value)
        if found is not None:
            return found
    raise RecordInvalid(f"not splits of a plan: {repr(value)[:200]}", value=repr(value)[:200])
