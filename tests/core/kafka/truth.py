"""What a random world knows beside the splits: what its lanes have committed, and what is true of its partitions."""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_backfill.core.kafka.split import Split


class Violation(Exception):
    """Something that must hold does not."""


@dataclass
class Lane:
    """What one lane has committed, and whether a new attempt has to begin."""

    splits: dict[int, Split] = field(default_factory=dict)
    applied: int = -1
    begun: bool = False
    restart: bool = False


@dataclass
class Truth:
    """What is known of a partition besides its split."""

    begin: int
    """Where its history starts."""
    chosen: bool
    """Whether that is later than the log's start, as the user wants it."""
    applied: int
    """The version of the landing table that was applied, or pinned, when its split came to be."""
    target: list[int] = field(default_factory=list)
    """Every row written, in the order of the commits."""
    returned: list[int] = field(default_factory=list)
    """Every record that Kafka returned, in committed rounds."""
    covered: int = -1
    """The greatest offset of a committed read."""
    told: int | None = None
    """What the landing table said last, since the broker was asked."""
    passed: set[int] = field(default_factory=set)
    """Records that neither Kafka nor the landing table had when they were wanted."""
