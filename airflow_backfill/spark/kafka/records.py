"""Reads the records of a topic in batches: exactly the requested offsets, only committed records."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from airflow_backfill.core.errors import KafkaLost
from airflow_backfill.core.kafka.offsets import Batch, Offsets
from airflow_backfill.core.kafka.opening import PLAN_AGAIN, Log, recreated
from airflow_backfill.core.state.effect import Fetched
from airflow_backfill.spark.kafka.broker import Broker
from airflow_backfill.spark.kafka.landing_table import RAW
from airflow_backfill.spark.kafka.reader_options import kafka_options
from airflow_backfill.spark.session.staged import release, stage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class KeptRows:
    """Rows of the landing table, with their ranges, that replace records that Kafka has lost."""

    ranges: Mapping[int, Offsets]
    rows: DataFrame


class TopicRecords:
    """Reads one topic. Holds the records of the last ``hold`` until the next one."""

    def __init__(self, spark: SparkSession, connection: Mapping[str, str], topic: str, topic_id: str) -> None:
        self._spark, self._connection, self._topic, self._id = spark, connection, topic, topic_id
        self.broker = Broker(spark, connection, topic)
        self._held: DataFrame | None = None
        self._holes = False

    def hold(self, ranges: Mapping[int, Offsets], kept: KeptRows | None) -> Fetched:
        """The answer to the effect FetchRecords. ``held`` then has the records."""
        self.release()
        self._held = stage(self._both(ranges, kept))
        return self._counted(self._held, ranges)

    def count(self, ranges: Mapping[int, Offsets], kept: KeptRows | None) -> Fetched:
        """The answer to the effect FetchRecords without ``hold``: only counts."""
        return self._counted(self._both(ranges, kept), ranges)

    def written(
        self, ranges: Mapping[int, Offsets], kept: KeptRows | None, write: Callable[[DataFrame], None]
    ) -> Fetched:
        """The same, but counts the records while ``write`` reads them: between two reads compaction could delete some.

        As long as every offset has a record, only the total is counted: counts by partition take half as long as the
        read itself. The first time an offset has no record, ``write`` is called again; from then on each partition is
        counted.
        """
        whole = {**ranges, **(kept.ranges if kept is not None else {})}
        counter, each = Observation(), whole if self._holes else ()
        partition, offset = F.col("partition"), F.col("offset")
        numbers = [
            number.alias(f"{name}_{n}")
            for n in each
            for name, number in (
                ("least", F.min(F.when(partition == n, offset))),
                ("greatest", F.max(F.when(partition == n, offset))),
                ("records", F.count_if(partition == n)),
            )
        ]
        total = (F.count(F.lit(1)).alias("records"), F.sum(_size()).alias("bytes"))
        write(self._both(ranges, kept).observe(counter, *total, *numbers))
        self.check_there(ranges)
        found = counter.get
        if found["records"] == sum(map(len, whole.values())):
            return Fetched({n: Batch(some.start, some.last, len(some)) for n, some in whole.items()}, found["bytes"])
        if not self._holes:
            self._holes = True
            return self.written(ranges, kept, write)
        some = [n for n in whole if found[f"records_{n}"]]
        batches = {n: Batch(found[f"least_{n}"], found[f"greatest_{n}"], found[f"records_{n}"]) for n in some}
        return Fetched(batches, found["bytes"] or 0)

    def _counted(self, records: DataFrame, ranges: Mapping[int, Offsets]) -> Fetched:
        counted = records.groupBy("partition").agg(
            F.min("offset").alias("least"),
            F.max("offset").alias("greatest"),
            F.count(F.lit(1)).alias("records"),
            F.sum(_size()).alias("bytes"),
        )
        groups = counted.collect()
        # Spark does not notice what retention deletes during the read.
        self.check_there(ranges)
        batches = {g["partition"]: Batch(g["least"], g["greatest"], g["records"]) for g in groups}
        return Fetched(batches, sum(g["bytes"] for g in groups))

    def _both(self, ranges: Mapping[int, Offsets], kept: KeptRows | None) -> DataFrame:
        frames = [self.read(ranges)] if ranges or kept is None else []
        return reduce(DataFrame.union, frames if kept is None else [*frames, kept.rows])

    def read(self, ranges: Mapping[int, Offsets], *, committed: bool = True) -> DataFrame:
        """The raw records of these ranges, read lazily. Without ``committed``, uncommitted and aborted ones too."""
        reader = self._spark.read.format("kafka").options(**kafka_options(self._connection))
        if not committed:
            reader = reader.option("kafka.isolation.level", "read_uncommitted")
        return (
            reader.option("assign", json.dumps({self._topic: sorted(ranges)}))
            .option("startingOffsets", json.dumps({self._topic: {str(n): some.start for n, some in ranges.items()}}))
            .option("endingOffsets", json.dumps({self._topic: {str(n): some.stop for n, some in ranges.items()}}))
            .option("minPartitions", str(self._spark.sparkContext.defaultParallelism))
            .load()
            .select(RAW.names)
        )

    def held(self, ranges: Mapping[int, Offsets]) -> DataFrame:
        """The records of the last ``hold``, which had these ranges."""
        assert self._held is not None and ranges
        return self._held

    def release(self) -> None:
        if self._held is not None:
            release(self._held)
            self._held = None

    def check_there(self, ranges: Mapping[int, Offsets]) -> Mapping[int, Log]:
        """The topic's logs. KafkaLost if one starts after its range, SourceReplaced if the topic was created again."""
        found = self.broker.ask()
        if found.id != self._id:
            raise recreated(found.id, len(found.logs), self._id)
        logs = found.logs
        for partition, some in ranges.items():
            if partition not in logs or logs[partition].start > some.start:
                have = logs[partition].start if partition in logs else None
                raise KafkaLost(
                    f"partition {partition}: offset {some.start} is needed, but the log starts at {have}. {PLAN_AGAIN}",
                    partition=partition,
                    wanted=some.start,
                    have=have,
                )
        return logs


def _size() -> Column:
    """Bytes of a record's key and value."""
    return F.coalesce(F.length("key"), F.lit(0)) + F.coalesce(F.length("value"), F.lit(0))
