"""The rows of a landing table: which offsets its versions brought, and the rows of some of them.

A version only adds rows, whatever else is in it stops the build before. What was read is compared with what the commits
say, as for every other source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from airflow_backfill.core.effect import Sifted
from airflow_backfill.core.epoch import EpochRange
from airflow_backfill.core.errors import LandingInvalid, NotAppendOnly, OffsetsInvalid
from airflow_backfill.core.kafka.offsets import Batch, Offsets
from airflow_backfill.core.position import AtOffset
from airflow_backfill.spark.changes import EPOCH, read_changes
from airflow_backfill.spark.failure import lost_history_named
from airflow_backfill.spark.transform import OWN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RAW = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("headers", ArrayType(StructType().add("key", StringType()).add("value", BinaryType()))),
    ]
)
"""A record as Spark reads it from Kafka, and as it lands."""

_FIRST, _FRESH = OWN + "first", OWN + "fresh"


def check_landing(schema: StructType) -> None:
    """LandingInvalid unless a table with this schema has the columns of records; others beside them do not matter."""
    found = {field.name: field.dataType.simpleString() for field in schema.fields}
    for field in RAW.fields:
        wanted = field.dataType.simpleString()
        if found.get(field.name) != wanted:
            has = found.get(field.name, "no such column")
            raise LandingInvalid(
                f"a landing table has a column {field.name} of type {wanted}; this one has {has}", column=field.name
            )


@dataclass(frozen=True)
class LandingTable:
    """The rows of ``topic`` in the Delta table at ``location``."""

    spark: SparkSession
    location: str
    topic: str

    def greatest(self, epoch: int) -> dict[int, int]:
        """By partition: the greatest offset at a version. LandingInvalid if a row has no place."""
        rows = self._at(epoch)
        nameless = F.count_if(F.col("partition").isNull() | F.col("offset").isNull())
        with lost_history_named():
            found = rows.groupBy("partition").agg(F.max("offset").alias("last"), nameless.alias("nameless")).collect()
        if any(row["nameless"] for row in found):
            raise LandingInvalid("some rows have no partition or no offset", count=sum(r["nameless"] for r in found))
        return {row["partition"]: row["last"] for row in found}

    def sift(self, epochs: EpochRange, known: Mapping[int, AtOffset]) -> Sifted:
        """As the effect ``Sift`` says."""
        added = self._added(epochs)
        stand = _by_partition({n: position.epoch for n, position in known.items()}, epochs.start - 1)
        landed = _by_partition({n: p.split.landed for n, p in known.items() if p.split.landed is not None}, -1)
        later = added.where(F.col(EPOCH) > stand)
        each = later.groupBy("partition", "offset").agg(F.min(EPOCH).alias(_FIRST), F.count(F.lit(1)).alias("rows"))
        judged = each.withColumn(_FRESH, F.col("offset") > landed)
        fresh = F.col(_FRESH)
        found = judged.groupBy("partition").agg(
            F.min(F.when(fresh, F.col("offset"))).alias("least"),
            F.max(F.when(fresh, F.col("offset"))).alias("greatest"),
            F.count_if(fresh).alias("fresh"),
            F.sum("rows").alias("rows"),
        )
        with lost_history_named():
            groups = found.collect()
        batches = {g["partition"]: Batch(g["least"], g["greatest"], g["fresh"]) for g in groups if g["fresh"]}
        repeated = sum(g["rows"] - g["fresh"] for g in groups)
        if repeated:
            self._check_repeated(judged.where(~fresh), added.where(F.col(EPOCH) <= stand), epochs.start - 1)
        return Sifted(batches, repeated)

    def rows(self, epochs: EpochRange, offsets: Mapping[int, Offsets], *, repeats: bool) -> DataFrame:
        """The rows of these offsets, raw; each once, also if they ``repeats``."""
        wanted = F.lit(False)
        for partition, some in offsets.items():
            inside = (F.col("offset") >= some.start) & (F.col("offset") < some.stop)
            wanted = wanted | ((F.col("partition") == partition) & inside)
        rows = self._added(epochs).where(wanted)
        return (rows.dropDuplicates(["partition", "offset"]) if repeats else rows).select(RAW.names)

    def beyond(self, seams: Mapping[int, int], epoch: int) -> DataFrame:
        """The rows at a version with offsets beyond the seam of their partition, if it has one: raw and each once."""
        rows = self._at(epoch).where(F.col("offset") > _by_partition(seams, -1))
        return rows.dropDuplicates(["partition", "offset"]).select(RAW.names)

    def _check_repeated(self, old: DataFrame, known: DataFrame, epoch: int) -> None:
        """OffsetsInvalid unless all of these rows were there before: then they are repeated, else out of order."""
        place = ["partition", "offset"]
        before = self._at(epoch).select(place).union(known.select(place)).distinct()
        missing = old.join(before, place, "left_anti").orderBy(place).limit(1).collect()
        if missing:
            (row,) = missing
            raise OffsetsInvalid(
                f"version {row[_FIRST]} of the landing table brings offset {row['offset']} of partition "
                f"{row['partition']} after later ones",
                partition=row["partition"],
                offset=row["offset"],
                version=row[_FIRST],
            )

    def _added(self, epochs: EpochRange) -> DataFrame:
        """The rows that these epochs added, with EPOCH; as many as the commits say."""
        changes = read_changes(self.spark, self.location, epochs, RAW.names, (), feed=False)
        if not changes.only_adds:
            raise NotAppendOnly(f"epochs {epochs.start} to {epochs.last} do more than add rows", epoch=epochs.start)
        changes.prove(changes.counted())
        return changes.frame.where(F.col("topic") == self.topic)

    def _at(self, epoch: int) -> DataFrame:
        rows = self.spark.read.format("delta").option("versionAsOf", epoch).load(self.location)
        return rows.where(F.col("topic") == self.topic)


def _by_partition(values: Mapping[int, int], otherwise: int) -> Column:
    """A number for each partition."""
    if not values:
        return F.lit(otherwise).cast("bigint")
    pairs = [F.lit(part) for pair in values.items() for part in pair]
    return F.coalesce(F.create_map(*pairs)[F.col("partition")], F.lit(otherwise)).cast("bigint")
