"""The topic as it was planned: its partitions, each with the split that it begins with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_backfill.core.kafka.split import Split

RECORD_BYTES = 1_000
"""What a record is taken to have before any was read."""


@dataclass(frozen=True, slots=True)
class Partitions:
    """Split i of the build is partition i of the topic. Partitions that appear later are in no plan."""

    topic_id: str
    """Kafka's own: a topic that is created again under the same name has another one."""
    splits: tuple[Split, ...]
    rules: str
    """By which rules records become rows: a build keeps to them."""
    compacted: bool = False
    """Whether Kafka removes older records of a key, so that an offset without a record proves nothing."""

    def __len__(self) -> int:
        return len(self.splits)

    @property
    def rows(self) -> int:
        """Records to read, at most: some offsets may hold none."""
        return sum(split.left for split in self.splits)

    @property
    def bytes(self) -> int:
        """A guess: nobody knows how many the records between two offsets have before they are read."""
        return self.rows * RECORD_BYTES

    @property
    def sound(self) -> bool:
        """Whether every partition is there, in order, and nothing of it was read yet."""
        places = all(split.partition == place and split.read == 0 for place, split in enumerate(self.splits))
        return bool(self.topic_id) and bool(self.splits) and bool(self.rules) and places

    def to_json(self) -> dict[str, Any]:
        return {
            "topic": self.topic_id,
            "partitions": [split.to_json() for split in self.splits],
            "rules": self.rules,
            **({"compacted": True} if self.compacted else {}),
        }

    @staticmethod
    def from_json(value: Any) -> Partitions:
        splits = tuple(Split.from_json(split) for split in value["partitions"])
        return Partitions(value["topic"], splits, value["rules"], value.get("compacted", False))
