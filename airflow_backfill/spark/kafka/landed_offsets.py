"""Topic and landing table side by side: which offsets of the same ranges each of them has.

Kafka's side is what a reader of committed records gets. What only Kafka has was missed by the ingestion. What only the
landing table has is no record: an ingestion that reads uncommitted ones lands what was aborted. Of a compacted topic it
may be a record that was compacted since; what a reader of uncommitted records still gets was not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_backfill.core.errors import LandingInvalid
from airflow_backfill.core.kafka.offsets import Offsets
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
        """What the ingestion has missed of these ranges, by partition. ``landed`` gives partition and offset of what
        has landed of some. LandingInvalid if something landed that is no committed record.
        """
        if not ranges:
            return []
        there = landed(ranges)
        records = self.topic.read(ranges).select(*_PLACE, F.lit(False).alias(_SIDE))
        both = records.union(there.select(*_PLACE, F.lit(True).alias(_SIDE))).groupBy(_PLACE)
        odd = both.agg(F.count(F.lit(1)).alias("sides"), F.max(_SIDE).alias(_SIDE)).where("sides = 1").drop("sides")
        with self.topic.coded(), lost_history_named(), held(odd) as only:
            missed, strange = _runs(only.where(~F.col(_SIDE))), _runs(only.where(_SIDE))
            if strange and self.compacted:
                spans = {run.partition: Offsets(run.first, run.last + 1) for run in strange}
                uncommitted = self.topic.read(spans, committed=False).select(_PLACE)
                strange = _runs(only.where(_SIDE).join(uncommitted, _PLACE, "left_semi"))
        logs = self.topic.check_there({})
        starts = {n: max(some.start, logs[n].start) for n, some in ranges.items()}
        if any(starts[n] > some.start for n, some in ranges.items()):
            # Retention took some of it meanwhile.
            return self.check({n: Offsets(starts[n], s.stop) for n, s in ranges.items() if starts[n] < s.stop}, landed)
        if strange:
            raise _uncommitted(strange)
        return missed


def _runs(places: DataFrame) -> list[Run]:
    numbers = (F.min("offset"), F.max("offset"), F.count("offset"))
    return sorted((Run(*row) for row in places.groupBy("partition").agg(*numbers).collect()), key=lambda r: r.partition)


def _uncommitted(runs: list[Run]) -> LandingInvalid:
    run = runs[0]
    return LandingInvalid(
        f"{sum(each.count for each in runs)} rows of the landing table are no committed records of the topic, "
        f"{run.count} of them in partition {run.partition} between the offsets {run.first} and {run.last}: the "
        "ingestion lands what was aborted. Set its isolation.level to read_committed, delete these rows from the "
        "landing table, and plan the build again with on_existing='restart'",
        partition=run.partition,
        first=run.first,
        last=run.last,
        count=run.count,
    )
