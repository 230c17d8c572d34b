"""The rows of a landing table: the offsets that its epochs added, and their rows.

An epoch may only add rows; anything else stops the build. The rows read are compared with the commits, as for every
source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, Row
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

from airflow_backfill.core.errors import LandingInvalid, NotAppendOnly, OffsetsInvalid, SourceReplaced
from airflow_backfill.core.kafka.offsets import MAX, Batch, Offsets
from airflow_backfill.core.kafka.opening import CREATED_AGAIN
from airflow_backfill.core.splits.partitions import AtOffset
from airflow_backfill.core.state.effect import Landed
from airflow_backfill.core.values.epoch import EpochRange
from airflow_backfill.spark.open_source import open_source
from airflow_backfill.spark.session.failure import lost_history_named
from airflow_backfill.spark.source.changes import EPOCH, Changes
from airflow_backfill.spark.source.source import Source
from airflow_backfill.spark.transform.transform import OWN

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
"""The columns of a record, in Spark's Kafka source and in a landing table."""

_PLACE = ["partition", "offset"]
_FIRST, _FRESH = OWN + "first", OWN + "fresh"


def check_landing(schema: StructType) -> None:
    """LandingInvalid unless the schema has all columns of ``RAW``. Other columns are ignored."""
    found = {field.name: field.dataType.simpleString() for field in schema.fields}
    for field in RAW.fields:
        wanted = field.dataType.simpleString()
        if found.get(field.name) != wanted:
            has = found.get(field.name, "no such column")
            raise LandingInvalid(
                f"a landing table needs a column {field.name} of type {wanted}; this one has {has}; correct source, or "
                "land the columns of Spark's Kafka source unchanged",
                column=field.name,
            )


@dataclass(frozen=True)
class LandingTable:
    """The rows of ``topic`` in the Delta table at ``location``."""

    spark: SparkSession
    location: str
    topic: str

    @property
    def head(self) -> int:
        """The newest epoch."""
        return self._source.head

    def greatest(self, epoch: int) -> dict[int, int]:
        """By partition: the greatest offset at an epoch. LandingInvalid if a row has no valid partition or offset."""
        rows = self._at(epoch)
        with lost_history_named():
            found = rows.groupBy("partition").agg(F.max("offset").alias("last"), _nameless(F.lit(1))).collect()
        self._check_named(found, "correct or delete these rows, then clear the task")
        return {row["partition"]: row["last"] for row in found}

    def first(self, epoch: int, starts: Mapping[int, int], count: int) -> dict[int, Offsets]:
        """By partition: the first ``count`` offsets from ``starts`` on, beginning with one that the table has at an
        epoch, and not beyond its last one.
        """
        there = self._at(epoch).where(F.col("offset") >= by_partition(starts, 0))
        with lost_history_named():
            found = there.groupBy("partition").agg(F.min("offset"), F.max("offset")).collect()
        return {n: Offsets(least, min(least + count, last + 1)) for n, least, last in found}

    def landed(self, epochs: EpochRange, known: Mapping[int, AtOffset]) -> Landed:
        """The answer to the effect ReadLanded. LandingInvalid if a row has no valid partition or offset."""
        changes = self._changes(epochs)
        added = self._of_topic(changes.frame)
        stand = by_partition({n: position.epoch for n, position in known.items()}, epochs.start - 1)
        before = by_partition({n: p.split.landed for n, p in known.items() if p.split.landed is not None}, -1)
        later = added.where(F.col(EPOCH) > stand)
        each = later.groupBy("partition", "offset").agg(F.min(EPOCH).alias(_FIRST), F.count(F.lit(1)).alias("rows"))
        judged = each.withColumn(_FRESH, F.col("offset") > before)
        fresh = F.col(_FRESH)
        found = judged.groupBy("partition").agg(
            F.min(F.when(fresh, F.col("offset"))).alias("least"),
            F.max(F.when(fresh, F.col("offset"))).alias("greatest"),
            F.count_if(fresh).alias("fresh"),
            F.sum("rows").alias("rows"),
            _nameless(F.col("rows")),
        )
        with lost_history_named():
            groups = found.collect()
        self._check_named(groups, "delete these rows, and plan again with on_existing='restart'")
        batches = {g["partition"]: Batch(g["least"], g["greatest"], g["fresh"]) for g in groups if g["fresh"]}
        repeated = sum(g["rows"] - g["fresh"] for g in groups)
        if repeated:
            self._check_repeated(judged.where(~fresh | (F.col("rows") > 1)), added, stand, epochs.start - 1)
        return Landed(batches, repeated, changes.last)

    def rows(self, epochs: EpochRange, offsets: Mapping[int, Offsets], *, repeats: bool) -> DataFrame:
        """The raw rows of these offsets that ``epochs`` added. With ``repeats``, repeated offsets are read once."""
        rows = self._of_topic(self._changes(epochs).frame).where(_inside(offsets))
        return (rows.dropDuplicates(_PLACE) if repeats else rows).select(RAW.names)

    def kept(self, epoch: int, starts: Mapping[int, int], since: int | None) -> dict[int, Batch]:
        """By partition: the offsets before the start of Kafka's log that the table has at an epoch, each once. With
        ``since`` (milliseconds since 1970), only from the first record of that time on. SourceReplaced if the copies of
        an offset differ.
        """
        old = self._at(epoch).where(F.col("offset") < by_partition(starts, 0))
        if since is not None:
            late = old.where(F.col("timestamp") >= F.timestamp_millis(F.lit(since)))
            with lost_history_named():
                first = {row[0]: row[1] for row in late.groupBy("partition").agg(F.min("offset")).collect()}
            old = old.where(F.col("offset") >= by_partition(first, MAX))
        each = old.groupBy(_PLACE).agg(F.count(F.lit(1)).alias("rows"))
        numbers = (F.min("offset").alias("least"), F.max("offset").alias("greatest"), F.count("offset").alias("count"))
        with lost_history_named():
            found = each.groupBy("partition").agg(*numbers, F.max("rows").alias("rows")).collect()
        if any(row["rows"] > 1 for row in found):
            self._check_same(old.join(each.where("rows > 1"), _PLACE, "left_semi"))
        return {row["partition"]: Batch(row["least"], row["greatest"], row["count"]) for row in found}

    def places(self, offsets: Mapping[int, Offsets], epoch: int) -> DataFrame:
        """Partition and offset of the rows in these ranges at an epoch."""
        return self._at(epoch).where(_inside(offsets)).select(_PLACE).distinct()

    def within(self, offsets: Mapping[int, Offsets], epoch: int) -> DataFrame:
        """The raw rows in these ranges at an epoch, each offset once."""
        return self._at(epoch).where(_inside(offsets)).dropDuplicates(_PLACE).select(RAW.names)

    def beyond(self, seams: Mapping[int, int], epoch: int) -> DataFrame:
        """The raw rows at an epoch with offsets after the seam of their partition (if any), each offset once."""
        rows = self._at(epoch).where(F.col("offset") > by_partition(seams, -1))
        return rows.dropDuplicates(_PLACE).select(RAW.names)

    def _check_named(self, groups: Sequence[Row], way_out: str) -> None:
        count = sum(group["nameless"] for group in groups)
        if count:
            raise LandingInvalid(
                f"{count} rows of topic {self.topic} in the landing table have no valid partition or offset, so their "
                f"place is unknown; {way_out}",
                count=count,
            )

    def _check_repeated(self, repeats: DataFrame, added: DataFrame, stand: Column, epoch: int) -> None:
        """OffsetsInvalid if an offset is not fresh and has no earlier copy: it is out of order. SourceReplaced if the
        copies of an offset are different records.
        """
        before = self._at(epoch).select(*RAW.names).union(added.where(F.col(EPOCH) <= stand).select(*RAW.names))
        known = repeats.join(before.select(_PLACE), _PLACE, "left_semi").select(_PLACE)
        with lost_history_named():
            missing = repeats.where(~F.col(_FRESH)).join(known, _PLACE, "left_anti").orderBy(_PLACE).limit(1).collect()
        if missing:
            (row,) = missing
            raise OffsetsInvalid(
                f"version {row[_FIRST]} of the landing table adds offset {row['offset']} of partition "
                f"{row['partition']} after later ones, and there is no earlier copy to compare it with: it landed out "
                "of order, or its first copy was deleted; plan again with on_existing='restart': what has landed by "
                f"then may have any order. If the topic was created again: {CREATED_AGAIN}",
                partition=row["partition"],
                offset=row["offset"],
                version=row[_FIRST],
            )
        copies = before.union(added.where(F.col(EPOCH) > stand).select(*RAW.names))
        self._check_same(copies.join(repeats, _PLACE, "left_semi"))

    def _check_same(self, copies: DataFrame) -> None:
        """SourceReplaced unless all rows of an offset are the same record."""
        none = F.array().cast(RAW["headers"].dataType)
        record = F.struct("timestamp", "key", "value", F.coalesce("headers", none).alias("headers"))
        # As JSON text, in which a null differs from an empty value.
        content = F.sha2(F.to_json(record, {"ignoreNullFields": "false"}), 256)
        kinds = copies.groupBy(_PLACE).agg(F.min(content).alias("one"), F.max(content).alias("other"))
        with lost_history_named():
            found = kinds.where(F.col("one") != F.col("other")).orderBy(_PLACE).limit(1).collect()
        if found:
            raise SourceReplaced(
                f"the landing table has offset {found[0]['offset']} of partition {found[0]['partition']} twice, with "
                f"different records: topic {self.topic} was created again, or another topic landed under its name; "
                f"{CREATED_AGAIN}",
                partition=found[0]["partition"],
                offset=found[0]["offset"],
            )

    def _changes(self, epochs: EpochRange) -> Changes:
        """The rows that these epochs added. Their number is checked against the commits."""
        changes = self._source.changes(epochs, RAW.names, (), feed=False)
        if not changes.only_adds:
            raise NotAppendOnly(
                f"epochs {epochs.start} to {epochs.last} of the landing table change or delete rows, but the build can "
                "only take added ones; plan again with on_existing='restart', and only append to the landing table",
                epoch=epochs.start,
            )
        changes.prove(changes.counted())
        return changes

    def _at(self, epoch: int) -> DataFrame:
        return self._of_topic(self._source.at(epoch))

    def _of_topic(self, rows: DataFrame) -> DataFrame:
        return rows.where(F.col("topic") == self.topic)

    @property
    def _source(self) -> Source:
        return open_source(self.spark, self.location)


def _inside(offsets: Mapping[int, Offsets]) -> Column:
    """Whether a row is in the range of its partition."""
    wanted = F.lit(False)
    for partition, some in offsets.items():
        inside = (F.col("offset") >= some.start) & (F.col("offset") < some.stop)
        wanted = wanted | ((F.col("partition") == partition) & inside)
    return wanted


def _nameless(rows: Column) -> Column:
    """How many ``rows`` have no valid partition or offset."""
    named = F.coalesce((F.col("partition") >= 0) & (F.col("offset") >= 0), F.lit(False))
    return F.sum(F.when(named, 0).otherwise(rows)).alias("nameless")


def by_partition(values: Mapping[int, int], otherwise: int) -> Column:
    """The value of a row's partition; ``otherwise`` if it has none."""
    if not values:
        return F.lit(otherwise).cast("bigint")
    pairs = [F.lit(part) for pair in values.items() for part in pair]
    return F.coalesce(F.create_map(*pairs)[F.col("partition")], F.lit(otherwise)).cast("bigint")
