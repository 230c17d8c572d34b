"""Compares topic and landing table in the same ranges of offsets.

Kafka's side is read as committed records. An offset that only Kafka has was missed by the ingestion. An offset that
only the landing table has is an aborted record: the ingestion reads uncommitted ones. In a compacted topic it may also
be a record that was compacted since, unless a reader of uncommitted records still gets it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_backfill.core.errors import LandingInvalid, SourceReplaced
from airflow_backfill.core.kafka.offsets import Offsets
from airflow_backfill.core.kafka.opening import CREATED_AGAIN
from airflow_backfill.spark.kafka.memory import same_values
from airflow_backfill.spark.kafka.records import TopicRecords
from airflow_backfill.spark.session.failure import lost_history_named
from airflow_backfill.spark.session.staged import held

_PLACE = ["partition", "offset"]
_SIDE = "landed"


@dataclass(frozen=True)
class Run:
    """Offsets of one partition that only one side has."""

    partition: int
    first: int
    last: int
    count: int


@dataclass(frozen=True)
class LandedOffsets:
    topic: TopicRecords
    compacted: bool

    def check(self, ranges: Mapping[int, Offsets], landed: Callable[[Mapping[int, Offsets]], DataFrame]) -> list[Run]:
        """The offsets of these ranges that the ingestion has missed, by partition. ``landed`` returns partition and
        offset of the landed rows of given ranges. LandingInvalid if a row landed that is no committed record.
        """
        if not ranges:
            return []
        there = landed(ranges)
        records = self.topic.read(ranges).select(*_PLACE, F.lit(False).alias(_SIDE))
        both = records.union(there.select(*_PLACE, F.lit(True).alias(_SIDE))).groupBy(_PLACE)
        odd = both.agg(F.count(F.lit(1)).alias("sides"), F.max(_SIDE).alias(_SIDE)).where("sides = 1").drop("sides")
        with lost_history_named(), held(odd) as only:
            missed, strange = _runs(only.where(~F.col(_SIDE))), _runs(only.where(_SIDE))
            if strange and self.compacted:
                spans = {run.partition: Offsets(run.first, run.last + 1) for run in strange}
                uncommitted = self.topic.read(spans, committed=False).select(_PLACE)
                strange = _runs(only.where(_SIDE).join(uncommitted, _PLACE, "left_semi"))
        logs = self.topic.check_there({})
        starts = {n: max(some.start, logs[n].start) for n, some in ranges.items()}
        if any(starts[n] > some.start for n, some in ranges.items()):
            # Retention has deleted some of it meanwhile.
            return self.check({n: Offsets(starts[n], s.stop) for n, s in ranges.items() if starts[n] < s.stop}, landed)
        if strange:
            raise _uncommitted(strange)
        return missed

    def check_same(self, landed: DataFrame, ranges: Mapping[int, Offsets]) -> None:
        """SourceReplaced if a row of ``landed``, which are those of ``ranges``, is another record than the topic's."""
        if not ranges:
            return
        both = landed.alias("l").join(self.topic.read(ranges).alias("k"), _PLACE)
        others = both.where(~same_values("l", "k", ("key", "value")))
        with lost_history_named():
            found = others.select(_PLACE).orderBy(_PLACE).limit(1).collect()
        if found:
            n, offset = found[0]
            raise SourceReplaced(
                f"offset {offset} of partition {n} is another record in the landing table than in Kafka: the topic was "
                f"created again, or another topic landed under its name; {CREATED_AGAIN}",
                partition=n,
                offset=offset,
            )


def _runs(places: DataFrame) -> list[Run]:
    numbers = (F.min("offset"), F.max("offset"), F.count("offset"))
    return sorted((Run(*row) for row in places.groupBy("partition").agg(*numbers).collect()), key=lambda r: r.partition)


def _uncommitted(runs: list[Run]) -> LandingInvalid:
    run = runs[0]
    return LandingInvalid(
        f"{sum(each.count for each in runs)} rows of the landing table are no committed records of the topic, "
        f"{run.count} of them in partition {run.partition} from offset {run.first} to {run.last}: the ingestion lands "
        "aborted records; set its isolation.level to read_committed, delete these rows from the landing table, and "
        "plan again with on_existing='restart'",
        partition=run.partition,
        first=run.first,
        last=run.last,
        count=run.count,
    )
