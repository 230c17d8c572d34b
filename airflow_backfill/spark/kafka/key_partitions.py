"""The memory of a keyed build without ``order``: the first partition of each key.

Without ``order`` only offsets say which record of a key is the last, and only within a partition. So the first record
of a key in another partition stops the build before it is written, in every phase.

Entries are written before the commit of their keys. They are facts about the topic, whether that commit lands or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StructType

from airflow_backfill.core.errors import OrderUnknown
from airflow_backfill.spark.kafka.last_values import last_places
from airflow_backfill.spark.kafka.memory import Memory, same_values
from airflow_backfill.spark.session.redaction import shown
from airflow_backfill.spark.session.staged import held
from airflow_backfill.spark.source.key_value import KeyValue
from airflow_backfill.spark.target_table.net_change import NetChanges

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SAMPLE = 5


class KeyPartitions:
    """The memory at ``location``. ``key`` names columns of the target."""

    def __init__(self, spark: SparkSession, location: str, key: Sequence[str]) -> None:
        self._memory, self._columns = Memory(spark, location, len(key)), key

    def make(self, target: StructType) -> None:
        """Create the memory, empty, for a target with this schema."""
        schema = StructType()
        for column, name in zip(self._columns, self._memory.key, strict=True):
            schema.add(name, target[column].dataType)
        self._memory.make(schema.add("partition", IntegerType()).add("offset", LongType()))

    def partition(self, key: KeyValue) -> int | None:
        """The partition of a key's records; None if no round has seen it yet. MemoryLost."""
        found = self._memory.entries().where(key.matches(self._memory.key)).select("partition").limit(1).collect()
        return found[0]["partition"] if found else None

    def check(self, net: NetChanges) -> None:
        """Add the keys of a round. OrderUnknown if a key is known from another partition; MemoryLost."""
        found = last_places(net, self._columns).toDF(*self._memory.key, "partition", "offset")
        alone = False
        while not alone:
            version = self._memory.version
            self._add(found, net.upserts + net.deletes)
            # Repeat if another lane has added entries meanwhile: neither lane saw the other's.
            alone = self._memory.version <= version + 1
        if self._memory.untidy:
            self._memory.tidy()

    def _add(self, found: DataFrame, count: int) -> None:
        with held(self._memory.of(found, count)) as known:
            moved = found.alias("s").join(known.alias("t"), same_values("s", "t", self._memory.key))
            moved = moved.where("s.partition <> t.partition")
            if not moved.isEmpty():
                raise self._moved(moved)
            new = found.join(known, self._memory.key, "left_anti")
            if not new.isEmpty():
                self._memory.add(new)

    def _moved(self, moved: DataFrame) -> OrderUnknown:
        key = [F.col(f"s.{name}").cast("string").alias(name) for name in self._memory.key]
        place = [F.col(f"{side}.{name}").alias(f"{side}_{name}") for side in "st" for name in ("partition", "offset")]
        ordered = moved.select(*key, *place).orderBy("s_partition", "s_offset").limit(_SAMPLE)
        sample = [self._told(row.asDict()) for row in ordered.collect()]
        one, before = sample[0], sample[0]["before"]
        return OrderUnknown(
            f"key {one['key']} is in several partitions (offset {before['offset']} of partition {before['partition']}, "
            f"offset {one['offset']} of partition {one['partition']}), so its last record is unknown; set topic.order "
            "to a column that orders the records of a key, and plan again with on_existing='restart'",
            count=moved.count(),
            sample=sample,
        )

    def _told(self, row: dict[str, Any]) -> dict[str, Any]:
        key = {column: shown(row[name]) for column, name in zip(self._columns, self._memory.key, strict=True)}
        place, before = ({name: row[f"{side}_{name}"] for name in ("partition", "offset")} for side in "st")
        return {"key": key, **place, "before": before}
