"""A partition as the broker holds it: records and holes, what lands, is compacted or expires."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from airflow_backfill.core.kafka.offsets import Batch, Offsets
from airflow_backfill.core.kafka.opening import Log

KEYS = 6


@dataclass
class Partition:
    """One partition. Whatever is no record is a hole: a marker, an aborted record, a compacted one."""

    records: dict[int, int] = field(default_factory=dict)
    """Offset to key: committed, and neither compacted nor expired."""
    expired: set[int] = field(default_factory=set)
    """Records that only retention has removed."""
    start: int = 0
    next: int = 0
    open: dict[int, int] = field(default_factory=dict)
    """Records of the open transaction: they and whatever is behind them cannot be read yet."""
    ingested: int = 0
    """The landing table's next offset."""

    @property
    def end(self) -> int:
        """The last stable offset."""
        return min(self.open, default=self.next)

    @property
    def log(self) -> Log:
        return Log(self.start, self.end)

    def between(self, start: int, stop: int) -> list[int]:
        return sorted(offset for offset in self.records if start <= offset < stop)

    def gone(self, start: int, stop: int) -> set[int]:
        """What only retention has removed."""
        return {offset for offset in self.expired if start <= offset < stop}

    def produce(self, rng: random.Random) -> None:
        if self.open:
            return self.close(rng)
        wanted = {self.next + n: rng.randrange(KEYS) for n in range(rng.randrange(1, 9))}
        self.next += len(wanted)
        if rng.random() < 0.6:
            self.records |= wanted
        else:
            self.open = wanted
        return None

    def close(self, rng: random.Random) -> None:
        """End the open transaction: a marker, and the records are there or are none."""
        if self.open:
            self.next += 1
            self.records |= self.open if rng.random() < 0.6 else {}
            self.open = {}

    def compact(self, below: int) -> None:
        newest = {key: offset for offset, key in sorted(self.records.items()) if offset < self.end}
        for offset, key in list(self.records.items()):
            if offset < below and offset < newest.get(key, 0):
                del self.records[offset]

    def expire(self, before: int) -> None:
        for offset in self.between(0, before):
            del self.records[offset]
            self.expired.add(offset)
        self.start = max(self.start, before)

    def land(self, upto: int) -> list[int]:
        rows = self.between(self.ingested, upto)
        self.ingested = max(self.ingested, upto)
        return rows


def batch(rows: list[int]) -> Batch | None:
    return Batch(rows[0], rows[-1], len(rows)) if rows else None


def inside(rows: list[int], visible: Offsets | None) -> list[int]:
    return [offset for offset in rows if visible is not None and offset in visible]
