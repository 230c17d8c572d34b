"""The source strategy on Spark: a topic's partitions, read from Kafka first and from the landing table after that."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_backfill.core.kafka.opening import recreated
from airflow_backfill.core.model.certificate import Certificate
from airflow_backfill.core.model.plan import Plan
from airflow_backfill.core.model.record import Record
from airflow_backfill.core.splits.partitions import Partitions, held
from airflow_backfill.core.splits.position import Position
from airflow_backfill.core.state.effect import (
    AskBroker,
    DecodeRecords,
    Effect,
    FetchRecords,
    ReadIngested,
    ReadLanded,
    TakeOffsets,
    VerifyTarget,
    Work,
)
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.ledger.control_folder import memory_beside
from airflow_backfill.spark.kafka.broker import Broker
from airflow_backfill.spark.kafka.expected_rows import TopicRows
from airflow_backfill.spark.kafka.key_partitions import KeyPartitions
from airflow_backfill.spark.kafka.last_values import last_per_key, place_columns
from airflow_backfill.spark.kafka.proof import TopicProof
from airflow_backfill.spark.kafka.reader_options import connection, kafka_options
from airflow_backfill.spark.kafka.tombstones import Tombstones
from airflow_backfill.spark.kafka.topic_source import History
from airflow_backfill.spark.open_source import open_source
from airflow_backfill.spark.preflight.table import Preflight
from airflow_backfill.spark.session.faults import crash_point
from airflow_backfill.spark.strategies import strategy
from airflow_backfill.spark.strategies.strategy import Cut
from airflow_backfill.spark.target_table import apply
from airflow_backfill.spark.transform.transform import Transform
from airflow_backfill.spark.verify.proof import Proof

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Preparation(strategy.Preparation):
    """Splits are the topic's partitions. A keyed build remembers keys beside its target."""

    def cut(self, found: Preflight) -> Cut:
        assert found.partitions is not None
        return Cut(found.partitions)

    def with_memory(self, draft: Plan, found: Preflight) -> Plan:
        """A single partition without an order needs no memory."""
        memory, key = memory_beside(draft.spec.target, draft.build), found.target_key
        if not key:
            return draft
        if self._order is not None:
            place = place_columns(found.transform, self._order)
            Tombstones(self.spark, memory, key, place).make(found.transform.schema)
        elif len(draft.splits) > 1:
            KeyPartitions(self.spark, memory, key).make(found.transform.schema)
        else:
            return draft
        return replace(draft, made=(*draft.made, memory))

    @property
    def _order(self) -> str | None:
        assert self.spec.topic is not None
        return self.spec.topic.order


class Rounds(strategy.Rounds):
    """Takes offsets from the topic and its landing table, and proves that the target holds their records."""

    @property
    def transform(self) -> Transform:
        return self._history.transform

    def answer(self, effect: Effect[Any]) -> Any:
        assert isinstance(effect, AskBroker | ReadLanded | ReadIngested | FetchRecords | DecodeRecords), effect
        return self._history.answer(effect)

    def write(self, work: Work, record: Record, txn: apply.Txn, text: str) -> None:
        assert isinstance(work, TakeOffsets), work
        crash_point("before_apply")
        history = self._history
        if history.draft is not None:
            history.draft.commit(txn.app_id, txn.version, text)
        elif self.plan.spec.key:
            self._take_last_values(record, txn, text)
        else:
            apply.append(self.transform.apply(history.taken), self.target, txn, text)

    def proof(self, positions: tuple[Position, ...]) -> Proof:
        """The positions say where the seams are."""
        expected = TopicRows(self._history, positions).whole
        return Proof(self.spark, self.plan, self.transform, self.reader.control, history=expected)

    def certificate(self, wanted: VerifyTarget, now: int) -> Certificate:
        proof = replace(self.proof(wanted.positions), row_hash=wanted.row_hash)
        return TopicProof(proof, TopicRows(self._history, wanted.positions)).certificate(wanted, now)

    def stream(self, session: SparkSession, state: BuildState) -> DataFrame:
        """The landing table's rows. Without one: the topic's records from the pinned ends on; new partitions from their
        start.
        """
        spec = self.plan.spec.topic
        assert spec is not None and state.applied is not None
        if self.plan.spec.source is None:
            return self._records(session, spec.name)
        landing = open_source(self.spark, self.plan.spec.table)
        return landing.later(session, state.applied, feed=False).where(F.col("topic") == spec.name)

    def _records(self, session: SparkSession, name: str) -> DataFrame:
        planned, options = self.plan.splits, connection()
        assert isinstance(planned, Partitions)
        topic = Broker(session, options, name).ask()
        if topic.id != planned.topic_id:
            raise recreated(topic.id, len(topic.logs), planned.topic_id)
        ends = {split.partition: split.end for split in planned.splits}
        starts = {partition: log.start for partition, log in topic.logs.items()} | ends
        first = json.dumps({name: {str(partition): start for partition, start in starts.items()}})
        reader = session.readStream.format("kafka").options(**kafka_options(options))
        rows = reader.option("subscribe", name).option("startingOffsets", first).load()
        pinned = F.create_map(*(F.lit(number) for pair in starts.items() for number in pair))[F.col("partition")]
        early = F.raise_error(
            F.concat(F.lit("the stream got a record that the target already has: offset "), F.col("offset"))
        )
        offset = F.when(F.col("offset") < pinned, early.cast("bigint")).otherwise(F.col("offset"))
        return rows.withColumn("offset", offset)

    @cached_property
    def _history(self) -> History:
        return History(self.spark, self.plan)

    @property
    def _key(self) -> Sequence[str]:
        return self.transform.target_key(self.plan.spec.key)

    def _take_last_values(self, record: Record, txn: apply.Txn, text: str) -> None:
        order, key, narrowed = self._history.order, self._key, apply.narrowed(self.plan)
        with last_per_key(self._history.taken, self.transform, key, order) as net:
            memory = memory_beside(self.target, self.plan.build)
            if order is None:
                if memory in self.plan.made:
                    KeyPartitions(self.spark, memory, key).check(net)
                apply.changes(net, self.target, key, txn, text, narrowed=narrowed)
                return
            place = place_columns(self.transform, order)
            tombstones = Tombstones(self.spark, memory, key, place)
            tombstones.tidy(lambda: held(self.reader.state(self.plan.build).positions))
            sifted = tombstones.sifted(net, held(record.positions))
            apply.merge(sifted, self.target, key, txn, text, narrowed=narrowed, place=place)
