"""The records of one key, wherever they still are: in Kafka, in the landing table, or in both. For people who ask why a
row is as it is.

Kafka has no index of keys, so every record of the ranges is read and its key decoded. Values are decoded only for the
records that are found.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from airflow_backfill.core.errors import BackfillError, MemoryLost
from airflow_backfill.core.kafka.offsets import Offsets
from airflow_backfill.core.kafka.opening import Log
from airflow_backfill.core.kafka.reach import Fate, Reach
from airflow_backfill.core.splits.partitions import Partitions
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.ledger.control_folder import memory_beside
from airflow_backfill.spark.kafka.key_partitions import KeyPartitions
from airflow_backfill.spark.kafka.landing_table import RAW, by_partition
from airflow_backfill.spark.kafka.topic_source import History
from airflow_backfill.spark.source.key_value import KeyValue
from airflow_backfill.spark.transform.transform import OWN

log = logging.getLogger(__name__)

MAX_OFFSETS = 10_000_000
"""Offsets that are looked at unless more are asked for: the newest ones, an equal share of each partition."""
KEPT, FATE = OWN + "kept", OWN + "fate"
KAFKA, LANDING = "kafka", "landing"

Place = tuple[int, int]
"""Partition and offset."""


@dataclass(frozen=True)
class KeyRecords:
    """The records of ``key`` for the build of ``history``. ``since``: the first offset to look at in each partition."""

    history: History
    state: BuildState
    key: KeyValue
    since: int | None = None

    def found(self) -> DataFrame:
        """Each record once: the columns of ``RAW``, KEPT (who has it: KAFKA, LANDING) and its FATE."""
        history, there = self.history, self._in_kafka
        offsets = sum(map(len, there.values()))
        log.info("the key is looked for in %d offsets of Kafka, and in %d partitions", offsets, len(self.ranges))
        frames = [history.topic.read(there).withColumn(KEPT, F.lit(KAFKA))] if there else []
        if self.epoch is not None and self.ranges:
            landed = history.landing.within(self.ranges, self.epoch)
            frames.append(landed.withColumn(KEPT, F.lit(LANDING)))
        nothing = history.spark.createDataFrame([], RAW).withColumn(KEPT, F.lit(KAFKA))
        mine = history.records.with_key(reduce(DataFrame.union, frames or [nothing]), self.key)
        record = F.first(F.struct(*RAW.names)).alias("record")
        each = mine.groupBy("partition", "offset").agg(record, F.sort_array(F.collect_set(KEPT)).alias(KEPT))
        return each.select("record.*", KEPT).withColumn(FATE, self._fate())

    def _fate(self) -> Column:
        def number(name: str) -> Column:
            return by_partition({n: getattr(reach, name) for n, reach in self._reaches.items()}, -1)

        offset, landed = F.col("offset"), F.array_contains(KEPT, LANDING)
        return (
            F.when(offset < number("first"), Fate.BEFORE.value)
            .when(offset <= number("seam"), Fate.TAKEN.value)
            .when(offset > number("last"), Fate.LATER.value)
            .when(offset > number("landed"), Fate.PENDING.value)
            .when(landed, Fate.TAKEN.value)
            .otherwise(Fate.MISSED.value)
        )

    def doubt(self, last: Place | None, *, undecodable: bool) -> str | None:
        """Why the records that are left do not tell the target's row; None if they do. ``last``: the place of the last
        record of the key that the build has taken, as far as it was found. ``undecodable``: whether one was found that
        makes no row.
        """
        ordered = self.history.order is not None
        if last is not None and not ordered and self._nothing_gone_after(*last):
            return None
        if self.error is not None and any(reach.seam >= reach.first for reach in self._reaches.values()):
            return f"Kafka cannot be read, and the key may have records there: {self.error.message}"
        planned = self.history.plan.splits
        if (ordered or undecodable) and isinstance(planned, Partitions) and planned.compacted:
            return "the topic is compacted, and a record of the key that is gone may be the last one that counts"
        gone = sum(self.gone.values())
        if gone:
            return f"{gone} offsets of the history are neither in Kafka nor in the landing table any more"
        if any(some.start > self._reaches[n].first for n, some in self.ranges.items()):
            return "only the newest records were looked at; look at more of them with --since"
        return None

    def _nothing_gone_after(self, n: int, offset: int) -> bool:
        """Whether all records after this one are there."""
        if offset >= self._reaches[n].seam:
            return True
        return self.logs is not None and (n not in self.gone or offset >= self.logs[n].start)

    @cached_property
    def gone(self) -> dict[int, int]:
        """By partition, where there are any: the offsets looked at that Kafka has deleted, and that the landing table
        does not have.
        """
        before: dict[int, Offsets] = {}
        for n, some in self.ranges.items():
            first = max(some.start, self._reaches[n].first)
            stop = min(some.stop, self.logs[n].start) if self.logs is not None and n in self.logs else first
            before |= {n: Offsets(first, stop)} if first < stop else {}
        landed: dict[int, int] = {}
        if before and self.epoch is not None:
            places = self.history.landing.places(before, self.epoch)
            landed = {row["partition"]: row["count"] for row in places.groupBy("partition").count().collect()}
        left = {n: len(some) - landed.get(n, 0) for n, some in before.items()}
        return {n: count for n, count in left.items() if count}

    @cached_property
    def ranges(self) -> dict[int, Offsets]:
        """By partition: the offsets to look at."""
        if self.logs is not None:
            stops = {n: one.end for n, one in self.logs.items()}
        else:
            assert self.epoch is not None
            stops = {n: last + 1 for n, last in self.history.landing.greatest(self.epoch).items()}
        only = self._partition
        stops = {n: stop for n, stop in stops.items() if only in (None, n)}
        each = max(MAX_OFFSETS // max(len(stops), 1), 1)
        starts = {n: max(stop - each, 0) if self.since is None else self.since for n, stop in stops.items()}
        return {n: Offsets(starts[n], stop) for n, stop in sorted(stops.items()) if starts[n] < stop}

    @property
    def logs(self) -> Mapping[int, Log] | None:
        """What Kafka has, by partition; None if it cannot be asked, and the landing table is there to be read."""
        return self._asked[0]

    @property
    def error(self) -> BackfillError | None:
        """Why Kafka cannot be asked."""
        return self._asked[1]

    @cached_property
    def _asked(self) -> tuple[Mapping[int, Log] | None, BackfillError | None]:
        try:
            return self.history.topic.check_there({}), None
        except BackfillError as error:
            if self.epoch is None:
                raise
            return None, error

    @cached_property
    def epoch(self) -> int | None:
        """The newest epoch of the landing table; None if there is none."""
        return None if self.history.plan.spec.source is None else self.history.landing.head

    @property
    def _in_kafka(self) -> dict[int, Offsets]:
        starts = {n: max(some.start, self.logs[n].start) for n, some in self.ranges.items() if self.logs is not None}
        return {n: Offsets(start, self.ranges[n].stop) for n, start in starts.items() if start < self.ranges[n].stop}

    @cached_property
    def _reaches(self) -> dict[int, Reach]:
        alone = self.epoch is None
        unknown = dict.fromkeys(self.ranges, Reach(last=-1) if alone else Reach())
        return {**unknown, **self.history.plan.splits.reaches(self.state.positions, alone=alone)}

    @property
    def _partition(self) -> int | None:
        """The only partition that has the key; None if the build does not remember it."""
        plan = self.history.plan
        memory = memory_beside(plan.spec.target, plan.build)
        if self.history.order is not None or memory not in plan.made:
            return None
        try:
            return KeyPartitions(self.history.spark, memory, plan.spec.key).partition(self.key)
        except MemoryLost:
            return None
