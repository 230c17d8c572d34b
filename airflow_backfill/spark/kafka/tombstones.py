"""The memory of a keyed build with ``order``: deleted keys, each with the place of its newest deletion.

Partitions are read and land independently, so an older value of a key may come long after its deletion. The newest
entry of each key that a tombstone or the filter has deleted is kept as long as the target.

Entries are written before the commit that deletes by them. They are facts about the topic, whether that commit lands or
not. But an entry counts only once the target holds its record: entries of a zombie or a failed round change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from airflow_backfill.spark.kafka.landing_table import by_partition
from airflow_backfill.spark.kafka.memory import Memory, same_values
from airflow_backfill.spark.target_table.apply import place_of
from airflow_backfill.spark.target_table.net_change import DELETE, OP, NetChanges
from airflow_backfill.spark.transform.transform import quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PLACE = ("order", "partition", "offset")


class Tombstones:
    """The memory at ``location``. ``key`` and ``place`` (order, partition, offset) name columns of the target."""

    def __init__(self, spark: SparkSession, location: str, key: Sequence[str], place: Sequence[str]) -> None:
        self._memory = Memory(spark, location, len(key))
        self._key, self._place = key, place
        self._names = list(zip((*key, *place), (*self._memory.key, *_PLACE), strict=True))

    def make(self, target: StructType) -> None:
        """Create the memory, empty, for a target with this schema."""
        schema = StructType()
        for column, name in self._names:
            schema.add(name, target[column].dataType)
        self._memory.make(schema)

    def sifted(self, net: NetChanges, held: Mapping[int, int]) -> NetChanges:
        """``net`` without changes whose key was deleted later. First stores the deletes of ``net``. ``held``: by
        partition, the greatest offset that the target holds after the commit of ``net``. MemoryLost.
        """
        places = self._named(net.frame, OP)
        known = self._memory.of(places, net.upserts + net.deletes)
        if net.deletes:
            self._keep(places.where(F.col(OP) == DELETE).drop(OP), known)
        return self._without_older(net, known.where(_counts(held)))

    def newest(self, net: NetChanges, held: Mapping[int, int], target: DataFrame) -> NetChanges:
        """``net`` without changes whose key was deleted later, or has a later row in ``target``. Stores nothing.
        MemoryLost.
        """
        known = self._memory.of(self._named(net.frame), net.upserts + net.deletes).where(_counts(held))
        return self._without_older(net, known.unionByName(self._named(target)))

    def _named(self, rows: DataFrame, *more: str) -> DataFrame:
        """Key and place of rows of the target, under the names of entries."""
        return rows.select(*more, *(F.col(quoted(column)).alias(name) for column, name in self._names))

    def _without_older(self, net: NetChanges, known: DataFrame) -> NetChanges:
        later = place_of("t", _PLACE) > place_of("s", self._place)
        for column, name in zip(self._key, self._memory.key, strict=True):
            later = later & (F.col(f"t.{name}") == F.col(f"s.{quoted(column)}"))
        return replace(net, frame=net.frame.alias("s").join(known.alias("t"), later, "left_anti"))

    def _keep(self, gone: DataFrame, known: DataFrame) -> None:
        """Store the new entries of ``gone``. A repeated round stores nothing."""
        same = same_values("s", "t", gone.columns)
        self._memory.add(gone.alias("s").join(known.alias("t"), same, "left_anti"))

    def tidy(self, held: Callable[[], Mapping[int, int]]) -> None:
        """If a clean-up is due, delete entries that a newer entry supersedes, provided that it counts. ``held``: by
        partition, the greatest offset that the target holds for certain.
        """
        if self._memory.untidy:
            at = F.struct(*_PLACE)
            newest = F.max(F.when(_counts(held()), at)).over(Window.partitionBy(*self._memory.key))
            entries = self._memory.entries().withColumn("newest", newest)
            self._memory.tidy(entries.where(at < F.col("newest")).drop("newest"))


def _counts(held: Mapping[int, int]) -> Column:
    return F.col("offset") <= by_partition(held, -1)
