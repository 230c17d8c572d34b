"""Reads the checkpoint of an ingestion that is a structured stream.

The checkpoint has the stream's id, and the end offsets of each batch. The landing table's log has the last batch of
that stream. Together they say up to which offset everything has landed, also for a partition without new records.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_backfill.core.errors import LandingInvalid
from airflow_backfill.ledger.open_store import open_store
from airflow_backfill.ledger.store import NotFound
from airflow_backfill.spark.delta_internals import DeltaVersion

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LIMIT_BYTES = 4 << 20


@dataclass(frozen=True)
class Ingestion:
    """The stream with the checkpoint at ``checkpoint``, which lands ``topic`` in ``table``."""

    spark: SparkSession
    checkpoint: str
    table: str
    topic: str

    def check(self) -> None:
        """LandingInvalid if the location has no checkpoint of a structured stream."""
        _ = self._stream

    @property
    def _stream(self) -> str:
        try:
            return str(json.loads(self._read("metadata"))["id"])
        except (NotFound, ValueError, KeyError, TypeError):
            raise LandingInvalid(
                f"topic.checkpoint: {self.checkpoint} has no checkpoint of a structured stream, so it does not say "
                "what has landed; correct or leave out topic.checkpoint"
            ) from None

    def ends(self, epoch: int) -> dict[int, int]:
        """By partition: the offset before which everything has landed at an epoch; empty if unknown."""
        batch = DeltaVersion(self.spark, self.table, epoch).transactions.get(self._stream)
        if batch is None:
            return {}
        try:
            lines = self._read(f"offsets/{batch}").splitlines()
        except NotFound:
            return {}  # a stream deletes its oldest batches
        for line in lines:
            ends = _ends(line, self.topic)
            if ends is not None:
                return ends
        raise LandingInvalid(
            f"topic.checkpoint: the stream of {self.checkpoint} does not read topic {self.topic}; name the checkpoint "
            "of this topic's ingestion, or leave topic.checkpoint out"
        )

    def _read(self, name: str) -> str:
        return open_store(self.checkpoint, spark=self.spark).read(name, _LIMIT_BYTES).decode()


def _ends(line: str, topic: str) -> dict[int, int] | None:
    """The offsets of one source of a batch; None if it does not read the topic."""
    try:
        found: Any = json.loads(line)
        return {int(partition): int(offset) for partition, offset in found[topic].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
