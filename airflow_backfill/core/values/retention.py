"""How long a Delta table keeps its log, and data files that newer versions replaced."""

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
_TERM = re.compile(r"([+-]?\d+)\s+([a-z]+?)s?(?:\s+|$)")


@dataclass(frozen=True, slots=True)
class Retention:
    """Milliseconds for which commits, and replaced data files, are safe from clean-up."""

    log: int
    files: int

    @staticmethod
    def of(configuration: Mapping[str, str]) -> Retention:
        """From a table's properties; Delta's defaults (30 days, one week) where they are missing or not readable."""
        log, files = (_milliseconds(configuration.get(name, "")) for name in (LOG, FILES))
        return Retention(30 * _DAY if log is None else log, 7 * _DAY if files is None else files)

    @property
    def shorter(self) -> int:
        """How long an epoch stays readable after it is no longer the newest."""
        return min(self.log, self.files)


def _milliseconds(interval: str) -> int | None:
    """``interval 2 weeks 1 day``, as Delta writes it, at least 0; None for any other text."""
    text = interval.strip().lower().removeprefix("interval").strip()
    terms = _TERM.findall(text)
    whole = "".join(_TERM.sub("", text).split()) == ""
    if not terms or not whole or any(unit not in _UNITS for _, unit in terms):
        return None
    return max(sum(int(n) * _UNITS[unit] for n, unit in terms), 0)
