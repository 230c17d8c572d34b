"""Checks of a topic before a build begins, and its partitions as planned.

The landing table is pinned first, and the brokers are asked second. In the other order, records that land in between
would be in neither (docs/behaviours/source.md, S001.21).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_backfill.core.errors import SourceReplaced
from airflow_backfill.core.kafka.offsets import Batch, Offsets
from airflow_backfill.core.kafka.opening import Expiry, opened
from airflow_backfill.core.kafka.topic_retention import TopicExpiry
from airflow_backfill.core.kafka.topic_spec import TopicSpec
from airflow_backfill.core.model.plan import SourceFacts
from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.core.source.source_log import Admitted
from airflow_backfill.core.splits.partitions import Partitions
from airflow_backfill.core.state.effect import Topic
from airflow_backfill.core.values.retention import Retention
from airflow_backfill.ledger.clock import now_ms
from airflow_backfill.ledger.open_source import open_source as open_log
from airflow_backfill.spark.kafka.broker import Broker
from airflow_backfill.spark.kafka.dead_letters import check_table
from airflow_backfill.spark.kafka.decoding import records
from airflow_backfill.spark.kafka.landed_offsets import LandedOffsets
from airflow_backfill.spark.kafka.landing_table import LandingTable, check_landing
from airflow_backfill.spark.kafka.last_values import check_keyed, place_columns
from airflow_backfill.spark.kafka.reader_options import connection
from airflow_backfill.spark.kafka.records import TopicRecords
from airflow_backfill.spark.kafka.stream_checkpoint import Ingestion
from airflow_backfill.spark.preflight.table import RECENT_EPOCHS, Preflight
from airflow_backfill.spark.session.settings import assert_safe
from airflow_backfill.spark.transform.transform import parse, schema_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLE_OFFSETS = 100_000
"""Offsets, over all partitions, to check that the ingestion lands only committed records."""
COMPARED_RECORDS = 100
"""Records of each partition, the first that both have, to check that the landing table has those of the topic."""
NO_TABLE = '{"type":"struct","fields":[]}'
"""The schema in the plan of a build without a landing table."""


def inspect_topic(spark: SparkSession, spec: BackfillSpec, wanted: TopicSpec) -> Preflight:
    """Check topic, landing table and expressions, and choose the epoch and offsets to pin. Writes nothing.

    Raises LandingAhead, which is worth a retry, if the landing table holds offsets beyond the brokers' ends.
    """
    assert_safe(spark)
    decoded = records(spark, wanted.decoding, spec.key, wanted.order)
    transform = parse(spark, decoded.schema, spec.select, spec.where, spec.functions)
    key = transform.target_key(spec.key)
    if key:
        check_keyed(decoded, spec.key, wanted.order)
        if wanted.order is not None:
            place_columns(transform, wanted.order)
    if wanted.decoding.dead_letters is not None:
        check_table(spark, wanted.decoding.dead_letters)
    at, broker, landed = now_ms(), Broker(spark, connection(), wanted.name), {}
    if spec.source is not None:
        log = open_log(spec.source, spark)
        admitted = log.admit(spec)
        epoch, recent = admitted.facts.epoch, log.recent(admitted.facts.epoch, RECENT_EPOCHS)
        check_landing(schema_of(admitted.facts.schema_json))
        landed = LandingTable(spark, spec.source, wanted.name).greatest(epoch)
        if wanted.checkpoint is not None:
            Ingestion(spark, wanted.checkpoint, spec.source, wanted.name).check()
    topic = broker.ask()
    kept: Mapping[int, Batch] = {}
    if spec.source is None:
        admitted = Admitted(SourceFacts(topic.id, 0, NO_TABLE, (), feed=False), Retention.of({}))
        epoch, recent = 0, ()
    elif starts := {n: log.start for n, log in topic.logs.items() if log.start > 0 and n in landed}:
        kept = LandingTable(spark, spec.source, wanted.name).kept(epoch, starts, wanted.since)
    retention = broker.retention()
    compacted = bool(retention.compacted)
    partitions = _opened(broker, topic, landed, kept, wanted, decoded.rules, compacted)
    if spec.source is not None:
        ranges, landing = _landed_last(topic, landed), LandingTable(spark, spec.source, wanted.name)
        both = LandedOffsets(TopicRecords(spark, connection(), wanted.name, topic.id), compacted)
        both.check(ranges, lambda some: landing.places(some, epoch))
        # What a former topic of this name has landed comes first.
        common = landing.first(epoch, {n: log.start for n, log in topic.logs.items()}, COMPARED_RECORDS)
        both.check_same(landing.within(common, epoch), common)
    first = broker.ask({split.partition: split.scanned + 1 for split in partitions.splits if split.left})
    partitions = replace(partitions, splits=tuple(first.dated(split) for split in partitions.splits))
    return Preflight(
        spec=spec,
        source=admitted.facts,
        retention=admitted.retention,
        at=at,
        transform=transform,
        target_key=key,
        recent=recent,
        parts=len(partitions),
        units=partitions.rows,
        bytes=partitions.bytes,
        rows=partitions.rows,
        partitions=partitions,
        expiry=TopicExpiry(retention, min(first.oldest.values(), default=None)),
    )


def _landed_last(topic: Topic, landed: Mapping[int, int]) -> dict[int, Offsets]:
    """By partition: the last offsets that landed and that Kafka still has, at most ``SAMPLE_OFFSETS`` in total."""
    found, each = {}, max(SAMPLE_OFFSETS // max(len(landed), 1), 1)
    for n, last in landed.items():
        if topic.logs[n].start <= last:
            found[n] = Offsets(max(topic.logs[n].start, last + 1 - each), last + 1)
    return found


def _opened(
    broker: Broker,
    topic: Topic,
    landed: Mapping[int, int],
    kept: Mapping[int, Batch],
    wanted: TopicSpec,
    rules: str,
    compacted: bool,
) -> Partitions:
    strange = sorted(landed.keys() - topic.logs.keys())
    if strange:
        raise SourceReplaced(
            f"the landing table has partition {strange[0]} of topic {wanted.name}, but the brokers do not: the topic "
            "was created again, or the connection leads to another cluster; correct the connection or name another "
            "landing table, then clear the task",
            partition=strange[0],
        )
    first: dict[int, int] = {}
    if wanted.since is not None:
        first = broker.since(topic.logs, wanted.since)
    expiry = {n: Expiry(kept.get(n), compacted=compacted, skips=wanted.skips) for n in topic.logs}
    splits = [opened(n, log, landed.get(n), first.get(n), expiry[n]) for n, log in sorted(topic.logs.items())]
    return Partitions(topic.id, tuple(splits), rules, compacted)
