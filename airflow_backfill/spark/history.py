"""A topic's history and the table in which it lands, as one source: what a round takes of both, and what the target has
to hold of them in the end.

The rows of both go through one code path: raw records, decoded, then the user's ``select`` and ``where``. Undecodable
records go to a table of their own, each once, whoever finds them: what is decoded depends on nothing but the record.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

from delta.tables import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_backfill.core import effect as fx
from airflow_backfill.core.errors import KafkaLost, KafkaOption, VerificationFailed
from airflow_backfill.core.kafka.connection import VARIABLE, client_options
from airflow_backfill.core.kafka.offsets import Offsets
from airflow_backfill.core.kafka.partitions import Partitions
from airflow_backfill.core.kafka.split import Split
from airflow_backfill.core.plan import Plan
from airflow_backfill.core.position import AtOffset, Position
from airflow_backfill.spark import dead_letters
from airflow_backfill.spark.decoding import Records, records
from airflow_backfill.spark.delta_log import Draft
from airflow_backfill.spark.ingestion import Ingestion
from airflow_backfill.spark.landing_table import RAW, LandingTable
from airflow_backfill.spark.last_values import last_per_key
from airflow_backfill.spark.staged import held
from airflow_backfill.spark.topic_records import TopicRecords
from airflow_backfill.spark.transform import Transform, parse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

DRAFTED = 100
"""Partitions of a round that are counted while they are written: each has numbers of its own."""


def connection() -> dict[str, str]:
    """How Kafka is reached, from this process's environment; KafkaOption if it does not say."""
    if VARIABLE not in os.environ:
        raise KafkaOption(f"the environment variable {VARIABLE} is not set", option=VARIABLE)
    return client_options(os.environ[VARIABLE])


@dataclass
class History:
    """The topic and the landing table of a plan."""

    spark: SparkSession
    plan: Plan
    _draft: Draft | None = field(default=None, init=False)

    @cached_property
    def records(self) -> Records:
        assert self.plan.spec.topic is not None
        return records(self.spark, self.plan.spec.topic.decoding, self.plan.spec.key)

    @cached_property
    def transform(self) -> Transform:
        return parse(self.spark, self.records.schema, self.plan.spec.select, self.plan.spec.where)

    @cached_property
    def landing(self) -> LandingTable:
        assert self.plan.spec.topic is not None
        return LandingTable(self.spark, self.plan.spec.table, self.plan.spec.topic.name)

    @cached_property
    def _ingestion(self) -> Ingestion:
        topic = self.plan.spec.topic
        assert topic is not None and topic.checkpoint is not None
        return Ingestion(self.spark, topic.checkpoint, self.plan.spec.table, topic.name)

    @cached_property
    def topic(self) -> TopicRecords:
        """Not before somebody reads it: once the history is read no broker is needed."""
        splits, spec = self.plan.splits, self.plan.spec.topic
        assert isinstance(splits, Partitions) and spec is not None
        return TopicRecords(self.spark, connection(), spec.name, splits.topic_id)

    def answer(self, effect: fx.Ask | fx.Sift | fx.Ingested | fx.Fetch) -> Any:
        match effect:
            case fx.Ask():
                return self.topic.broker.ask()
            case fx.Sift(epochs, known):
                return self.landing.sift(epochs, known)
            case fx.Ingested(epoch):
                return self._ingestion.ends(epoch)
            case fx.Fetch(ranges, hold):
                return self._fetch(ranges) if hold else self.topic.count(ranges)

    @property
    def order(self) -> str | None:
        """The column that says which record of a key is the last one."""
        assert self.plan.spec.topic is not None
        return self.plan.spec.topic.order

    def _fetch(self, ranges: Mapping[int, Offsets]) -> fx.Fetched:
        """Where every record becomes a row as it is they are written at once; else they are held, to be looked at."""
        self._draft = None
        if self.plan.spec.key or not self.records.certain or len(ranges) > DRAFTED:
            return self.topic.hold(ranges)
        draft = Draft(self.spark, self.plan.spec.target)
        fetched = self.topic.written(ranges, lambda raw: draft.add(self._rows(raw)))
        self._draft = draft
        return fetched

    def drafted(self, work: fx.TakeOffsets) -> Draft | None:
        """What was fetched last and what landed, as files that are to be committed; None if they are not written."""
        draft, self._draft = self._draft, None
        if draft is not None and work.epochs is not None:
            draft.add(self._rows(self.landing.rows(work.epochs, work.landed, repeats=work.repeats)))
        return draft

    def _rows(self, raw: DataFrame) -> DataFrame:
        return self.transform.apply(dead_letters.good(self.records.decode(raw)))

    @contextmanager
    def taken(self, work: fx.TakeOffsets) -> Iterator[DataFrame]:
        """The decoded records that a round takes, for as long as a block lasts; dead letters are where they belong.

        Raises Undecodable if there are some, and no table for them.
        """
        frames = [self.topic.held(work.fetched)] if work.fetched else []
        if work.epochs is not None:
            frames.append(self.landing.rows(work.epochs, work.landed, repeats=work.repeats))
        decoded = self.records.decode(reduce(DataFrame.union, frames))
        if self.records.certain:
            yield dead_letters.good(decoded)
            return
        with held(decoded) as rows:
            counts = dead_letters.count(rows, self.transform.passes())
            log.info(
                "%d records read, %d outside the filter, %d undecodable", counts.read, counts.filtered, counts.dead
            )
            if counts.dead:
                self._bury(rows, counts.dead)
            yield dead_letters.good(rows)

    def target(self, epoch: int, positions: tuple[Position, ...]) -> DataFrame:
        """What the target has to hold at an epoch. Errors of ``expected``."""
        rows, key = self.expected(epoch, positions), self.transform.target_key(self.plan.spec.key)
        return last_per_key(rows, self.transform, key, self.order).rows() if key else self.transform.apply(rows)

    def expected(self, epoch: int, positions: tuple[Position, ...]) -> DataFrame:
        """All decoded records that the target has to hold at an epoch: Kafka's up to each seam, what landed beyond it.

        Raises KafkaLost if Kafka does not have them any more.
        """
        splits = {p.split.partition: p.split for p in positions if isinstance(p, AtOffset)}
        ranges = {n: some for n, split in splits.items() if (some := self._history(split)) is not None}
        frames = []
        if ranges:
            self.topic.check_there(ranges)
            frames.append(self.topic.read(ranges))
        if self.plan.spec.source is not None:
            frames.append(self.landing.beyond({n: self._seam(split) for n, split in splits.items()}, epoch))
        raw = reduce(DataFrame.union, frames or [self.spark.createDataFrame([], RAW)])
        return dead_letters.good(self.records.decode(raw))

    def check_covered(self, epoch: int, positions: tuple[Position, ...]) -> None:
        """VerificationFailed if a record that Kafka still has, beyond a seam and before what landed last, never landed:
        an ingestion that began too late leaves such a hole. Errors of ``TopicRecords.check_there``.
        """
        if self.plan.spec.source is None:
            return
        splits = {p.split.partition: p.split for p in positions if isinstance(p, AtOffset)}
        seams, wanted = {n: self._seam(split) for n, split in splits.items()}, {}
        for n, log in self.topic.check_there({}).items():
            landed = splits[n].landed if n in splits else None
            start, stop = max(seams.get(n, 0) + 1, log.start), 0 if landed is None else min(landed + 1, log.end)
            if start < stop:
                wanted[n] = Offsets(start, stop)
        if not wanted:
            return
        place = ["partition", "offset"]
        there = self.landing.beyond(seams, epoch).select(place)
        with self.topic.coded():
            missing = self.topic.read(wanted).select(place).join(there, place, "left_anti")
            groups = missing.groupBy("partition").agg(F.min("offset"), F.max("offset"), F.count("offset")).collect()
        if groups:
            partition, first, last, count = min(groups)
            raise VerificationFailed(
                f"{sum(group[3] for group in groups)} records are in Kafka and neither in the history nor in the "
                f"landing table, {count} of them in partition {partition} between the offsets {first} and {last}: "
                "history and landing table leave a hole between them",
                epoch=epoch,
                partition=partition,
                first=first,
                last=last,
                count=count,
            )

    def check_comparable(self, positions: tuple[Position, ...]) -> None:
        """KafkaLost if a partition's history has fewer records now than were read: those that are gone since, compacted
        away, are rows of a target that keeps all of them, and nothing is left that they could be compared with.
        """
        splits = {p.split.partition: p.split for p in positions if isinstance(p, AtOffset)}
        ranges = {n: some for n, split in splits.items() if (some := self._history(split)) is not None}
        if self.plan.spec.key or not ranges:
            return
        with self.topic.coded():
            counted = self.topic.read(ranges).groupBy("partition").count().collect()
        have = {row["partition"]: row["count"] for row in counted}
        gone = {n: splits[n].written - have.get(n, 0) for n in ranges if have.get(n, 0) < splits[n].written}
        if gone:
            partition = min(gone)
            raise KafkaLost(
                f"partition {partition}: {gone[partition]} of the {splits[partition].written} records that were read "
                "are gone, compacted away since: what is left of the topic cannot prove the target",
                partition=partition,
                read=splits[partition].written,
                have=have.get(partition, 0),
            )

    def _planned(self, partition: int) -> Split | None:
        splits = self.plan.splits
        assert isinstance(splits, Partitions)
        return splits.splits[partition] if partition < len(splits) else None

    def _seam(self, split: Split) -> int:
        """The offset beyond which a partition's rows come from the landing table, from what it got since the plan."""
        planned = self._planned(split.partition)
        landed = planned.landed if planned is not None else None
        return max(-1 if split.cut is None else split.cut, -1 if landed is None else landed)

    def _history(self, split: Split) -> Offsets | None:
        """What of a partition came from Kafka; of one that the plan does not know all that is there up to its seam."""
        if split.cut is None or split.read == 0:
            return None
        planned = self._planned(split.partition)
        first = planned.scanned + 1 if planned is not None else self.topic.broker.ask().logs[split.partition].start
        return Offsets(first, split.cut + 1)

    def _bury(self, rows: DataFrame, count: int) -> None:
        """Undecodable records to their table, those of them that are not there yet."""
        assert self.plan.spec.topic is not None
        location = self.plan.spec.topic.decoding.dead_letters
        if location is None:
            raise dead_letters.undecodable(rows, count)
        table = DeltaTable.createIfNotExists(self.spark).location(location).addColumns(dead_letters.SCHEMA).execute()
        same = [F.col(f"t.{name}") == F.col(f"s.{name}") for name in ("topic", "partition", "offset")]
        merged = table.alias("t").merge(dead_letters.dead_letters(rows).alias("s"), same[0] & same[1] & same[2])
        merged.whenNotMatchedInsertAll().execute()
