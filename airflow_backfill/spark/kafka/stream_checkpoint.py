"""What a structured stream, as an ingestion, says of the landing table that it writes.

Its checkpoint names the stream, and for each of its batches the offsets at which that ended. The landing table's log
names the last batch that it has, under the stream's name. Together they say through which offset all has landed, also
of a partition from which nothing came: its offsets were looked at all the same.
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

_LIMIT = 4 << 20


@dataclass(frozen=True)
class Ingestion:
    """The stream whose notes are at ``checkpoint``, and which lands ``topic`` in ``table``."""

    spark: SparkSession
    checkpoint: str
    table: str
    topic: str

    def check(self) -> None:
        """LandingInvalid if there are no notes of a stream."""
        _ = self._stream

    @property
    def _stream(self) -> str:
        try:
            return str(json.loads(self._read("metadata"))["id"])
        except (NotFound, ValueError, KeyError, TypeError):
            raise LandingInvalid(f"{self.checkpoint} holds no notes of a structured stream") from None

    def ends(self, epoch: int) -> dict[int, int]:
        """By partition: the offset before which all has landed at a version of the table; none if nothing is known."""
        batch = DeltaVersion(self.spark, self.table, epoch).transactions.get(self._stream)
        if batch is None:
            return {}
        try:
            lines = self._read(f"offsets/{batch}").splitlines()
        except NotFound:
            return {}  # a stream forgets its oldest batches
        for line in lines:
            ends = _ends(line, self.topic)
            if ends is not None:
                return ends
        raise LandingInvalid(f"{self.checkpoint} belongs to a stream that does not read topic {self.topic}")

    def _read(self, name: str) -> str:
        return open_store(self.checkpoint, spark=self.spark).read(name, _LIMIT).decode()


def _ends(line: str, topic: str) -> dict[int, int] | None:
    """The offsets of one of a batch's sources, if that reads the topic."""
    try:
        found: Any = json.loads(line)
        return {int(partition): int(offset) for partition, offset in found[topic].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
