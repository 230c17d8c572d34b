"""How long a Delta table keeps what a build needs: its log, and data files that newer versions replaced."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

LOG = "delta.logRetentionDuration"
FILES = "delta.deletedFileRetentionDuration"
_DAY = 24 * 3_600_000
_UNITS = {
    "week": 7 * _DAY,
    "day": _DAY,
    "hour": 3_600_000,
    "minute": 60_000,
    "second": 1_000,
    "millisecond": 1,
}
_TERM = re.compile(r"(\d+)\s+([a-z]+?)s?(?:\s+|$)")


@dataclass(frozen=True, slots=True)
class Retention:
    """Milliseconds for which commits, and files that are no longer current, are safe from clean-up."""

    log: int
    files: int

    @staticmethod
    def of(configuration: Mapping[str, str]) -> Retention:
        """What a table's properties say; Delta's defaults (30 days, one week) where they say nothing readable."""
        return Retention(
            log=_milliseconds(configuration.get(LOG, "")) or 30 * _DAY,
            files=_milliseconds(configuration.get(FILES, "")) or 7 * _DAY,
        )

    @property
    def shorter(self) -> int:
        """For how long an epoch can be read after it stopped being the newest."""
        return min(self.log, self.files)


def _milliseconds(interval: str) -> int:
    """``interval 2 weeks 1 day`` as Delta writes it; 0 if it is something else."""
    text = interval.strip().lower().removeprefix("interval").strip()
    terms = _TERM.findall(text)
    whole = "".join(_TERM.sub("", text).split()) == ""
    return sum(int(n) * _UNITS[unit] for n, unit in terms) if whole and all(u in _UNITS for _, u in terms) else 0
