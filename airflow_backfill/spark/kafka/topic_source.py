"""A topic and its landing table as one source: the records that a round takes from both.

The records of both are decoded and transformed by the same code. Undecodable records go to the table of dead letters,
each once, even if several attempts find them: decoding depends only on the record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from airflow_backfill.core.errors import DecoderInvalid
from airflow_backfill.core.kafka.offsets import Offsets
from airflow_backfill.core.model.plan import Plan
from airflow_backfill.core.splits.partitions import Partitions
from airflow_backfill.core.state import effect as fx
from airflow_backfill.ledger.control_folder import dead_letters_beside
from airflow_backfill.spark.delta_internals import Draft
from airflow_backfill.spark.kafka import dead_letters
from airflow_backfill.spark.kafka.decoding import TOMBSTONE, Records, records
from airflow_backfill.spark.kafka.landing_table import RAW, LandingTable
from airflow_backfill.spark.kafka.reader_options import connection
from airflow_backfill.spark.kafka.records import KeptRows, TopicRecords
from airflow_backfill.spark.kafka.stream_checkpoint import Ingestion
from airflow_backfill.spark.session.lost_file import newest_read
from airflow_backfill.spark.session.staged import release, stage
from airflow_backfill.spark.target_table.apply import guarded
from airflow_backfill.spark.transform.transform import Transform, parse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DRAFT_PARTITIONS = 100
"""A round with more partitions is held first: each partition has its own counts, which would slow down a draft."""


@dataclass
class History:
    """The topic and the landing table of a plan."""

    spark: SparkSession
    plan: Plan
    draft: Draft | None = field(default=None, init=False)
    """The records decoded last, if they are in files already."""
    _drafting: Draft | None = field(default=None, init=False)
    _fetched: int = field(default=0, init=False)
    _decoded: DataFrame | None = field(default=None, init=False)

    @cached_property
    def records(self) -> Records:
        """The decoding of the records; DecoderInvalid if its rules differ from the plan's."""
        planned, spec = self.plan.splits, self.plan.spec
        assert spec.topic is not None and isinstance(planned, Partitions)
        found = records(self.spark, spec.topic.decoding, spec.key, spec.topic.order)
        if found.rules != planned.rules:
            raise DecoderInvalid(
                f"the decoding rules changed since the plan: {found.rules} instead of {planned.rules}; the same record "
                "could become another row; restore the previous decoder version, or plan again with "
                "on_existing='restart'",
                found=found.rules,
                planned=planned.rules,
            )
        return found

    @cached_property
    def transform(self) -> Transform:
        spec = self.plan.spec
        return parse(self.spark, self.records.schema, spec.select, spec.where, spec.functions)

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
        """The reader of the topic. Created on first use: once the history is read, no broker is needed."""
        splits, spec = self.plan.splits, self.plan.spec.topic
        assert isinstance(splits, Partitions) and spec is not None
        return TopicRecords(self.spark, connection(), spec.name, splits.topic_id)

    def answer(
        self, effect: fx.AskBroker | fx.ReadLanded | fx.ReadIngested | fx.FetchRecords | fx.DecodeRecords
    ) -> Any:
        match effect:
            case fx.AskBroker(unread):
                return self.topic.broker.ask(unread)
            case fx.ReadLanded(epochs, known):
                return self.landing.landed(epochs, known)
            case fx.ReadIngested(epoch):
                return self._ingestion.ends(epoch)
            case fx.FetchRecords(ranges, hold, kept):
                with newest_read(self.plan.spec.source, self.spark):
                    rows = None if kept is None else KeptRows(kept.ranges, self.landing.within(kept.ranges, kept.epoch))
                    return self._fetch(ranges, rows) if hold else self.topic.count(ranges, rows)
            case fx.DecodeRecords(work, dead_letters):
                return self._decode(work, beside=dead_letters)

    @property
    def order(self) -> str | None:
        """The column that orders the records of a key."""
        assert self.plan.spec.topic is not None
        return self.plan.spec.topic.order

    @property
    def _drafts(self) -> bool:
        """Whether records can be written directly to files, without being held: none is undecodable or merged."""
        return self.records.certain and not self.plan.spec.key

    def _fetch(self, ranges: Mapping[int, Offsets], kept: KeptRows | None) -> fx.Fetched:
        self._drafting = None
        if not self._drafts or len(ranges) > DRAFT_PARTITIONS:
            return self.topic.hold(ranges, kept)
        fetched = self.topic.written(ranges, kept, self._begin_draft)
        self._fetched = sum(batch.count for batch in fetched.batches.values())
        return fetched

    def _begin_draft(self, raw: DataFrame) -> None:
        """Start a new draft with these records. An earlier draft is never committed."""
        self._drafting = Draft(self.spark, self.plan.spec.target)
        self._drafting.add(self._rows(raw))

    def _decode(self, work: fx.TakeOffsets, *, beside: bool) -> fx.Decoded:
        """Decode the records fetched last and the landed ones, into a draft or into held rows. ``beside``: the table of
        dead letters is beside the target, if the plan names none.
        """
        self.draft, self._drafting = self._drafting, None
        if self.draft is None and self._drafts and not work.fetched:
            self.draft, self._fetched = Draft(self.spark, self.plan.spec.target), 0
        landed = None
        if work.epochs is not None:
            landed = self.landing.rows(work.epochs, work.landed, repeats=work.repeats)
        if self.draft is not None:
            return self._completed(self.draft, landed)
        frames = [self.topic.held(work.fetched)] if work.fetched else []
        if work.compacted is not None:
            lost = self.compacted_away(work.compacted.ranges, work.compacted.epoch, *frames)
            frames += [] if lost is None else [lost]
        decoded = self.records.decode(reduce(DataFrame.union, frames if landed is None else [*frames, landed]))
        if self._decoded is not None:
            release(self._decoded)
        self._decoded = stage(decoded)
        passes = self.transform.passes()
        counted = dead_letters.count(self._decoded, passes | F.col(TOMBSTONE) if self.plan.spec.key else passes)
        if counted.undecodable:
            self._add_dead_letters(self._decoded, counted.undecodable, beside=beside)
        return counted

    def compacted_away(self, ranges: Mapping[int, Offsets], epoch: int, *fetched: DataFrame) -> DataFrame | None:
        """The tombstones in these ranges that have landed and that Kafka has compacted away since; None if there are
        none. Other records are compacted away only if their key has a later record.
        """
        rows, place = self.landing.within(ranges, epoch).where("value IS NULL"), ["partition", "offset"]
        for some in fetched:
            rows = rows.join(some.select(place), place, "left_anti")
        spans = rows.groupBy("partition").agg(F.min("offset"), F.max("offset")).collect()
        if not spans:
            return None
        # A row that a reader of uncommitted records still gets was aborted, not compacted.
        aborted = self.topic.read({n: Offsets(first, last + 1) for n, first, last in spans}, committed=False)
        return rows.join(aborted.select(place), place, "left_anti").select(RAW.names)

    def _completed(self, draft: Draft, landed: DataFrame | None) -> fx.Decoded:
        """Add the landed records to the draft. Every record is decodable, so those without a row are unwanted."""
        read = self._fetched
        if landed is not None:
            counter = Observation()
            draft.add(self._rows(landed.observe(counter, F.count(F.lit(1)).alias("records"))))
            read += counter.get["records"]
        return fx.Decoded(0, read - draft.rows)

    @property
    def taken(self) -> DataFrame:
        """The decodable records of the last DecodeRecords."""
        assert self._decoded is not None
        return dead_letters.good(self._decoded)

    def _rows(self, raw: DataFrame) -> DataFrame:
        rows = self.transform.apply(dead_letters.good(self.records.decode(raw)))
        return guarded(rows, self.plan.spec.target)

    def _add_dead_letters(self, rows: DataFrame, count: int, *, beside: bool) -> None:
        """Add undecodable records to their table, unless it has them already."""
        spec = self.plan.spec
        location = spec.dead_letters
        if location is None and beside:
            location = dead_letters_beside(spec.target, self.plan.build)
        if location is None:
            raise dead_letters.undecodable(rows, count)
        dead_letters.add(self.spark, location, dead_letters.dead_letters(rows))
