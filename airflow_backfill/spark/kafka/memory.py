"""The memory of keys of a keyed topic's build: a Delta table beside the target.

Entries are facts about the topic and are only added, and a repeated entry is harmless. So attempts and zombies can all
write. Only the plan creates the memory: if it is missing later, it was lost, and is never treated as empty.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from airflow_backfill.core.errors import MemoryLost, SourceNotDelta
from airflow_backfill.ledger.delta_log import DeltaLog
from airflow_backfill.ledger.open_store import open_store
from airflow_backfill.spark.session.creation import create_table
from airflow_backfill.spark.session.failure import conflict_of
from airflow_backfill.spark.session.temporary_settings import settings_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

TIDY_VERSIONS = 25
"""Versions between two clean-ups, which delete superseded entries and compact small files."""
BROADCAST_KEYS = 100_000
"""Up to this number, keys are broadcast when they are joined with the entries."""
_LISTING = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
_KEPT = "interval 1 days"
"""How long an attempt can read a version after a newer one was written."""


@dataclass(frozen=True)
class Memory:
    """The entries at ``location``. A key has ``width`` columns."""

    spark: SparkSession
    location: str
    width: int

    @property
    def key(self) -> list[str]:
        """The names of the key's columns."""
        return [f"key_{n}" for n in range(self.width)]

    def make(self, schema: StructType) -> None:
        """Create the memory, empty, unless it exists."""
        kept = ("delta.deletedFileRetentionDuration", "delta.logRetentionDuration")
        create_table(self.spark, self.location, schema, dict.fromkeys(kept, _KEPT))

    @property
    def version(self) -> int:
        """The newest version. MemoryLost."""
        try:
            return DeltaLog(open_store(self.location, spark=self.spark)).head()
        except SourceNotDelta:
            raise MemoryLost(
                f"the memory of keys at {self.location} is gone; without it an older record could overwrite a newer "
                "one; put the folder back as it was after the last round, or plan again with on_existing='restart'",
                location=self.location,
            ) from None

    def entries(self) -> DataFrame:
        """All entries, at one version even if they are read several times. MemoryLost."""
        return self.spark.read.format("delta").option("versionAsOf", self.version).load(self.location)

    def of(self, keys: DataFrame, count: int) -> DataFrame:
        """The entries of about ``count`` ``keys``. MemoryLost."""
        wanted = keys.select(*self.key)
        return self.entries().join(F.broadcast(wanted) if count <= BROADCAST_KEYS else wanted, self.key, "left_semi")

    def add(self, entries: DataFrame) -> None:
        """Append entries. MemoryLost."""
        assert self.version >= 0
        entries.write.format("delta").mode("append").save(self.location)

    @property
    def untidy(self) -> bool:
        """Whether a clean-up is due."""
        return self.version % TIDY_VERSIONS == TIDY_VERSIONS - 1

    def tidy(self, superseded: DataFrame | None = None) -> None:
        """Delete exactly the ``superseded`` entries, also if others are added meanwhile, and compact files."""
        table = DeltaTable.forPath(self.spark, self.location)
        log.info("cleaning up the memory of keys at %s", self.location)
        try:
            if superseded is not None:
                same = same_values("t", "s", superseded.columns)
                table.alias("t").merge(superseded.alias("s"), same).whenMatchedDelete().execute()
            table.optimize().executeCompaction()
            # Spark would list this one folder in 10,000 tasks.
            with settings_for(self.spark, {_LISTING: "1"}):
                table.vacuum()
        except Exception as error:
            if conflict_of(error) is None:
                raise
            log.info("another writer changed the memory of keys; it is cleaned up later")


def same_values(one: str, other: str, columns: Sequence[str]) -> Column:
    """Whether two sides of a join have equal values in these columns."""
    same = F.lit(True)
    for name in columns:
        same = same & F.col(f"{one}.{name}").eqNullSafe(F.col(f"{other}.{name}"))
    return same
