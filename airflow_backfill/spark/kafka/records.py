"""The records of a topic, read in batches by Spark: exactly the offsets that were asked for, committed ones only."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from airflow_backfill.core.errors import KafkaLost, SourceReplaced
from airflow_backfill.core.kafka.offsets import Batch, Offsets
from airflow_backfill.core.kafka.opening import PLAN_AGAIN, Log
from airflow_backfill.core.state.effect import Fetched
from airflow_backfill.spark.kafka.broker import Broker, kafka_error
from airflow_backfill.spark.kafka.landing_table import RAW
from airflow_backfill.spark.kafka.reader_options import kafka_options
from airflow_backfill.spark.session.staged import release, stage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class KeptRows:
    """Rows of the landing table, with their ranges, that are read beside records of the topic: Kafka has lost them."""

    ranges: Mapping[int, Offsets]
    rows: DataFrame


class TopicRecords:
    """Reads one topic, and holds what it read last until it is asked again."""

    def __init__(self, spark: SparkSession, connection: Mapping[str, str], topic: str, topic_id: str) -> None:
        self._spark, self._connection, self._topic, self._id = spark, connection, topic, topic_id
        self.broker = Broker(spark, connection, topic)
        self._held: DataFrame | None = None
        self._holes = False

    def hold(self, ranges: Mapping[int, Offsets], kept: KeptRows | None) -> Fetched:
        """As the effect ``Fetch`` says: ``held`` has the records."""
        self.release()
        self._held = stage(self._both(ranges, kept))
        return self._counted(self._held, ranges)

    def count(self, ranges: Mapping[int, Offsets], kept: KeptRows | None) -> Fetched:
        """As the effect ``Fetch`` says, for a look."""
        return self._counted(self._both(ranges, kept), ranges)

    def written(
        self, ranges: Mapping[int, Offsets], kept: KeptRows | None, write: Callable[[DataFrame], None]
    ) -> Fetched:
        """The same, of records that ``write`` reads: they are counted on their way, and never in another read, between
        which and this one compaction could take some.

        In one number, as long as every offset has held a record, because a number for each partition costs half as much
        again as reading. The first time that one has not, ``write`` is called again, and from then on with a number for
        each.
        """
        whole = {**ranges, **(kept.ranges if kept is not None else {})}
        seen, each = Observation(), whole if self._holes else ()
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
        with self.coded():
            write(self._both(ranges, kept).observe(seen, *total, *numbers))
        self.check_there(ranges)
        found = seen.get
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
        with self.coded():
            groups = counted.collect()
        # Whatever retention took while it was read is missed by nobody but us.
        self.check_there(ranges)
        batches = {g["partition"]: Batch(g["least"], g["greatest"], g["records"]) for g in groups}
        return Fetched(batches, sum(g["bytes"] for g in groups))

    def _both(self, ranges: Mapping[int, Offsets], kept: KeptRows | None) -> DataFrame:
        frames = [self.read(ranges)] if ranges or kept is None else []
        return reduce(DataFrame.union, frames if kept is None else [*frames, kept.rows])

    def read(self, ranges: Mapping[int, Offsets], *, committed: bool = True) -> DataFrame:
        """The records of these ranges, raw; nothing is read before Spark needs it. Unless ``committed`` those that are
        not, too.
        """
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
        """What was fetched last: it is all of it."""
        assert self._held is not None and ranges
        return self._held

    def release(self) -> None:
        if self._held is not None:
            release(self._held)
            self._held = None

    def check_there(self, ranges: Mapping[int, Offsets]) -> Mapping[int, Log]:
        """The topic's logs. KafkaLost if one begins after its range does, SourceReplaced if it is another topic's."""
        found = self.broker.ask()
        if found.id != self._id:
            raise SourceReplaced(f"topic {self._topic} has id {found.id}: it was created again", found=found.id)
        logs = found.logs
        for partition, some in ranges.items():
            if partition not in logs or logs[partition].start > some.start:
                have = logs[partition].start if partition in logs else None
                raise KafkaLost(
                    f"partition {partition}: offset {some.start} is wanted, the log starts at {have}. {PLAN_AGAIN}",
                    partition=partition,
                    wanted=some.start,
                    have=have,
                )
        return logs

    @contextmanager
    def coded(self) -> Iterator[None]:
        """Errors of Kafka in the block have their code."""
        try:
            yield
        except (PySparkException, Py4JJavaError) as error:
            thrown = getattr(error, "_origin", error)
            raise kafka_error(getattr(thrown, "java_exception", None), self._topic) or error from error


def _size() -> Column:
    """Bytes of a record's key and value."""
    return F.coalesce(F.length("key"), F.lit(0)) + F.coalesce(F.length("value"), F.lit(0))
