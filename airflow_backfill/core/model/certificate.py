"""The certificate: the result of a successful verification."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from airflow_backfill.core.values.document import count, parts, text


@dataclass(frozen=True, slots=True)
class Certificate:
    """The proof that target and transformed source are equal at an epoch."""

    epoch: int
    target_version: int
    rows: int
    digest: str
    buckets: int
    at: int
    gone: int = 0
    """Records of a topic that were counted but not compared: Kafka deleted them first, or may have deleted them."""
    lost: int = 0
    """Offsets of a topic's history that were skipped, because neither Kafka nor the landing table had them."""

    def to_json(self) -> dict[str, Any]:
        document = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in document.items() if value or name not in _COUNTERS}

    @staticmethod
    def from_json(value: Any) -> Certificate:
        """ValueError if ``value`` is not a certificate."""
        epoch, version, rows, digest, buckets, at, *more = parts(value, *_NUMBERS, optional=_COUNTERS)
        gone, lost = (0 if number is None else count(number, 1) for number in more)
        return Certificate(
            count(epoch), count(version), count(rows), text(digest), count(buckets), count(at), gone, lost
        )


_NUMBERS = ("epoch", "target_version", "rows", "digest", "buckets", "at")
_COUNTERS = ("gone", "lost")
"""Written only if they are not 0."""
