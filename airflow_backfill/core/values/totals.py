"""Running totals over the committed barriers of a build.

A record holds the totals up to the barrier before it, because only the commit's own metrics tell its rows. Only
committed work counts, so a retry does not count twice.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from airflow_backfill.core.errors import RecordInvalid


@dataclass(frozen=True, slots=True)
class Totals:
    """One group of counters for each phase that moves rows: snapshot, log, upstream (S000.45)."""

    snapshot_files: int = 0
    snapshot_bytes: int = 0
    snapshot_rows: int = 0
    log_epochs: int = 0
    log_rows: int = 0
    """Net changes applied between the snapshot and the hand-off."""
    upstream_epochs: int = 0
    upstream_rows: int = 0
    """Net changes applied after the hand-off."""
    repeated_rows: int = 0
    """Rows of the landing table that were dropped, because it already had their offsets."""
    undecodable_rows: int = 0
    """Records of a topic that went to the dead-letter table."""
    unwanted_rows: int = 0
    """Records of a topic that were decoded and did not pass the filter."""

    @property
    def records_without_row(self) -> int:
        """Records of a topic that became no row of the target."""
        return self.undecodable_rows + self.unwanted_rows

    def __add__(self, other: Totals) -> Totals:
        return Totals(*(getattr(self, name) + getattr(other, name) for name in _NAMES))

    def to_json(self) -> dict[str, int]:
        return {name: value for name in _NAMES if (value := getattr(self, name))}

    @staticmethod
    def from_json(value: Any) -> Totals:
        if not isinstance(value, dict) or not set(value) <= set(_NAMES):
            raise RecordInvalid(f"not totals: {value!r}", value=repr(value)[:200])
        if not all(type(v) is int and v >= 0 for v in value.values()):
            raise RecordInvalid(f"totals must be counts: {value!r}", value=repr(value)[:200])
        return Totals(**value)


_NAMES = tuple(one.name for one in fields(Totals))
