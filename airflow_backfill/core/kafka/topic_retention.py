"""How long Kafka keeps the records of a topic, from the topic's configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TopicRetention:
    """Limits of each partition; None for unlimited or unknown."""

    milliseconds: int | None = None
    bytes: int | None = None
    compacted: bool | None = None
    """Whether compaction deletes older records of a key; None if unknown."""

    @staticmethod
    def of(configuration: Mapping[str, str]) -> TopicRetention:
        policies = {policy.strip() for policy in configuration["cleanup.policy"].split(",")}
        deletes = "delete" in policies
        kept, size = (int(configuration[name]) for name in ("retention.ms", "retention.bytes"))
        return TopicRetention(
            milliseconds=kept if deletes and kept >= 0 else None,
            bytes=size if deletes and size >= 0 else None,
            compacted="compact" in policies,
        )


@dataclass(frozen=True, slots=True)
class TopicExpiry:
    """The retention of a topic, and the age of its history."""

    retention: TopicRetention
    oldest: int | None
    """When the first record of the history was written, in milliseconds since 1970; None if unknown."""

    def left(self, now: int) -> int | None:
        """Milliseconds until Kafka may delete the first record of the history; None for never, or unknown."""
        if self.retention.milliseconds is None or self.oldest is None:
            return None
        return max(self.oldest + self.retention.milliseconds - now, 0)

    def to_json(self, now: int) -> dict[str, int | None]:
        kept, left = self.retention.milliseconds, self.left(now)
        return {
            "seconds": None if kept is None else kept // 1000,
            "bytes": self.retention.bytes,
            "seconds_left": None if left is None else left // 1000,
        }
