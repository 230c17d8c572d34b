"""The topic whose history comes before the landing table, as the spec names it: data only.

Brokers and credentials are in a connection: it may change between attempts, the topic must not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from airflow_backfill.core.errors import InvalidSpec
from airflow_backfill.core.kafka.decoding import OPTIONS, Decoding
from airflow_backfill.core.values.options import check_known, checked, invalid, location

EARLIEST = "earliest"
STOP, SKIP = "stop", "skip"
NAMES = ("name", "first", "expired", "checkpoint", "order", *OPTIONS)
"""The options of a topic."""
RECORD_COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
"""The columns of a landing table that a build reads, named as those of Spark's Kafka source."""

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}\Z")


@dataclass(frozen=True, slots=True)
class TopicSpec:
    name: str
    """The topic's name."""
    first: str = EARLIEST
    """Where history starts: "earliest", the first record of Kafka or the landing table, or a time in ISO 8601 with an
    offset from UTC.
    """
    expired: str = STOP
    """What to do if neither Kafka nor the landing table has records of the history: "stop", or "skip", which counts
    them and goes on without them.
    """
    checkpoint: str | None = None
    """The checkpoint of the landing table's ingestion, a structured stream. It tells a partition without new records
    from one whose records have not landed yet.
    """
    order: str | None = None
    """With a key: the column that orders the records of a key, which may then be in several partitions."""
    decoding: Decoding = field(default_factory=Decoding)

    @staticmethod
    def parse(options: Any) -> TopicSpec:
        """The topic in ``options``; InvalidSpec with field, value and fix. No I/O.

        Options are ``name``, ``first``, ``expired``, ``checkpoint``, ``order`` and those of ``Decoding``.
        """
        if not isinstance(options, Mapping):
            raise InvalidSpec(f"topic: must be a dict of options, not {type(options).__name__}", field="topic")
        check_known(options, NAMES)
        topic = TopicSpec(
            name=checked("topic.name", options.get("name")),
            first=checked("topic.first", options.get("first", EARLIEST)),
            expired=checked("topic.expired", options.get("expired", STOP)),
            checkpoint=location(options, "checkpoint") if options.get("checkpoint") is not None else None,
            order=checked("topic.order", options["order"]) if options.get("order") is not None else None,
            decoding=Decoding.parse({name: options[name] for name in OPTIONS if name in options}),
        )
        topic._check()
        return topic

    def _check(self) -> None:
        if not _TOPIC.match(self.name) or self.name in (".", ".."):
            raise invalid("topic.name", self.name, "must have 1 to 249 letters, digits, '_', '.' or '-'")
        if self.name.startswith("__"):
            raise invalid("topic.name", self.name, "is an internal topic of Kafka; name another one")
        if self.expired not in (STOP, SKIP):
            raise invalid("topic.expired", self.expired, f"must be {STOP!r} or {SKIP!r}")
        if self.first != EARLIEST and self.since is None:
            raise invalid(
                "topic.first", self.first, "must be 'earliest', or a time such as '2026-01-31T00:00:00+00:00'"
            )

    @property
    def skips(self) -> bool:
        """Whether the build goes on without missing records."""
        return self.expired == SKIP

    @property
    def since(self) -> int | None:
        """The time at which history starts, in milliseconds since 1970; None for the log's start."""
        try:
            at = datetime.fromisoformat(self.first.replace("Z", "+00:00"))
        except ValueError:
            return None
        return round(at.timestamp() * 1000) if at.tzinfo is not None and at.timestamp() >= 0 else None

    def to_json(self) -> dict[str, Any]:
        own = {"name": self.name, "first": self.first, "checkpoint": self.checkpoint, "order": self.order}
        if self.skips:
            own["expired"] = self.expired
        return {**own, **self.decoding.to_json()}
