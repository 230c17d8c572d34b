"""What a keyed topic's build remembers of keys beside its target: a Delta table of its own.

Entries are facts about the topic and are only added; one that is there twice says nothing else than one. So attempts
and zombies write it without asking each other. The plan makes it, and nothing else does: a memory that is missing later
was lost, and is never taken for an empty one.
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
from airflow_backfill.spark.session.failure import classify
from airflow_backfill.spark.session.temporary_settings import settings_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

TIDY = 25
"""Versions from one time to the next at which superseded entries go, and small files become large ones."""
FEW = 100_000
"""Keys that are sent to wherever the entries are."""
_LISTING = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
_KEPT = "interval 1 days"
"""For how long an attempt may read a version after the next one was written."""


@dataclass(frozen=True)
class Memory:
    """The entries at ``location``, each of a key with as many columns as ``width`` says."""

    spark: SparkSession
    location: str
    width: int

    @property
    def key(self) -> list[str]:
        """The names of the key's columns."""
        return [f"key_{n}" for n in range(self.width)]

    def make(self, schema: StructType) -> None:
        """Create it, empty, unless it is there."""
        table = DeltaTable.createIfNotExists(self.spark).location(self.location).addColumns(schema)
        for name in ("delta.deletedFileRetentionDuration", "delta.logRetentionDuration"):
            table = table.property(name, _KEPT)
        table.execute()

    @property
    def version(self) -> int:
        """The newest one. MemoryLost."""
        try:
            return DeltaLog(open_store(self.location, spark=self.spark)).head()
        except SourceNotDelta:
            raise MemoryLost(
                f"{self.location} is gone, in which the build remembers keys: without it an older record could undo a "
                "newer one; put the folder back as it was, or build the table again in another place",
                location=self.location,
            ) from None

    def entries(self) -> DataFrame:
        """All of them, always of one version, however often they are read. MemoryLost."""
        return self.spark.read.format("delta").option("versionAsOf", self.version).load(self.location)

    def of(self, keys: DataFrame, count: int) -> DataFrame:
        """The entries of about ``count`` ``keys``. MemoryLost."""
        wanted = keys.select(*self.key)
        return self.entries().join(F.broadcast(wanted) if count <= FEW else wanted, self.key, "left_semi")

    def add(self, entries: DataFrame) -> None:
        """Add them. MemoryLost."""
        assert self.version >= 0
        entries.write.format("delta").mode("append").save(self.location)

    @property
    def untidy(self) -> bool:
        """Whether there have been many versions since it was tidied up last."""
        return self.version % TIDY == TIDY - 1

    def tidy(self, superseded: DataFrame | None = None) -> None:
        """Let go of the ``superseded`` entries, and of no other, whatever is added meanwhile; keep few files."""
        table = DeltaTable.forPath(self.spark, self.location)
        log.info("tidying up %s", self.location)
        try:
            if superseded is not None:
                same = same_values("t", "s", superseded.columns)
                table.alias("t").merge(superseded.alias("s"), same).whenMatchedDelete().execute()
            table.optimize().executeCompaction()
            # Spark lists folders in 10,000 tasks, and here is one folder.
            with settings_for(self.spark, {_LISTING: "1"}):
                table.vacuum()
        except Exception as error:
            if classify(error) is None:
                raise
            log.info("somebody else writes to it; it is left as it is")


def same_values(one: str, other: str, columns: Sequence[str]) -> Column:
    """Whether two sides of a join have the same in these columns."""
    same = F.lit(True)
    for name in columns:
        same = same & F.col(f"{one}.{name}").eqNullSafe(F.col(f"{other}.{name}"))
    return same
