"""A Delta table as a source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from delta.tables import DeltaTable
from pyspark.sql import DataFrame

from airflow_backfill.core.values.epoch import EpochRange
from airflow_backfill.spark.delta.changes import read_changes
from airflow_backfill.spark.delta.key_changes import read_key
from airflow_backfill.spark.delta.range_files import RangeFiles
from airflow_backfill.spark.delta.snapshot_files import SnapshotFiles
from airflow_backfill.spark.delta_internals import DeltaVersion
from airflow_backfill.spark.source.changes import Changes
from airflow_backfill.spark.source.key_changes import KeyChanges
from airflow_backfill.spark.source.key_order import KeyOrder
from airflow_backfill.spark.source.key_value import KeyValue

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class DeltaSource:
    """The table at ``location``: an epoch is a version."""

    spark: SparkSession
    location: str

    @property
    def head(self) -> int:
        version: int = DeltaTable.forPath(self.spark, self.location).history(1).collect()[0]["version"]
        return version

    def at(self, epoch: int) -> DataFrame:
        return self.spark.read.format("delta").option("versionAsOf", epoch).load(self.location)

    def files(self, epoch: int) -> SnapshotFiles:
        return SnapshotFiles(self.spark, self.location, epoch)

    def key_files(self, epoch: int, order: KeyOrder) -> RangeFiles:
        return RangeFiles.of(DeltaVersion(self.spark, self.location, epoch), order)

    def changes(
        self, epochs: EpochRange, columns: Sequence[str], key: Sequence[str], *, feed: bool = True, whole: bool = False
    ) -> Changes:
        return read_changes(self.spark, self.location, epochs, columns, None if whole else key, feed=feed)

    def key_changes(self, epochs: EpochRange, key: KeyValue, *, feed: bool) -> KeyChanges:
        return read_key(self.spark, self.location, epochs, key, feed=feed)

    def later(self, session: SparkSession, epoch: int, *, feed: bool) -> DataFrame:
        reader = session.readStream.format("delta").option("startingVersion", epoch + 1)
        return (reader.option("readChangeFeed", "true") if feed else reader).load(self.location)
