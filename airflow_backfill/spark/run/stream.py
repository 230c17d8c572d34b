"""A structured stream of the user's own that goes on exactly where a table backfill was handed over."""

from __future__ import annotations

import json

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_backfill.core.errors import KafkaLost, NotAllowedNow, SourceReplaced
from airflow_backfill.core.splits.partitions import Partitions
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.phase import Phase
from airflow_backfill.ledger.reader import BuildReader
from airflow_backfill.spark.kafka.broker import Broker
from airflow_backfill.spark.kafka.reader_options import connection, kafka_options
from airflow_backfill.spark.session.settings import read_as_written

_BEYOND_THE_HEAD = "spark.databricks.delta.changeDataFeed.timestampOutOfRange.enabled"


def follow(spark: SparkSession, target: str) -> DataFrame:
    """What the source of a finished build got after the target's epoch, as a stream in a session of its own.

    Its first epoch is the target's plus one, also if the source has not got there yet. The rows are those of the change
    feed, with ``_change_type`` and ``_commit_version``; of a source that only adds rows, the rows that were added; of a
    topic without a landing table its records, each partition from the offset that the plan pinned as its end.
    Where the query writes, and that it writes once, is up to its checkpoint: start it once, and let nobody else follow.

    Raises NotAllowedNow unless the build is finished; KafkaLost or SourceReplaced if the topic does not reach back.
    """
    state = BuildReader(target, spark).state()
    if state.phase not in (Phase.FINISHED, Phase.UPSTREAM) or state.applied is None:
        raise NotAllowedNow(f"the build is in {state.phase.value}: nothing is handed over", phase=state.phase.value)
    plan, session = state.plan, spark.newSession()
    read_as_written(session)
    if plan.spec.source is None:
        return _records(session, state)
    # Only for this stream: a batch that asks for what is not there yet would be given nothing, without an error.
    session.conf.set(_BEYOND_THE_HEAD, "true")
    reader = session.readStream.format("delta").option("startingVersion", state.applied + 1)
    if not plan.appends:
        reader = reader.option("readChangeFeed", "true")
    rows = reader.load(plan.spec.table)
    return rows.where(F.col("topic") == plan.spec.topic.name) if plan.spec.topic is not None else rows


def _records(session: SparkSession, state: BuildState) -> DataFrame:
    """The topic's records from the pinned ends on; partitions that have appeared since from their first one on."""
    planned, spec, options = state.plan.splits, state.plan.spec.topic, connection()
    assert isinstance(planned, Partitions) and spec is not None
    topic = Broker(session, options, spec.name).ask()
    if topic.id != planned.topic_id:
        raise SourceReplaced(f"topic {spec.name} has id {topic.id}: it was created again", found=topic.id)
    ends = {split.partition: split.end for split in planned.splits}
    starts = {partition: log.start for partition, log in topic.logs.items()} | ends
    for partition, start in starts.items():
        if partition not in topic.logs or topic.logs[partition].start > start:
            raise KafkaLost(f"partition {partition}: the stream would begin at {start}, which is gone", wanted=start)
    first = json.dumps({spec.name: {str(partition): start for partition, start in starts.items()}})
    reader = session.readStream.format("kafka").options(**kafka_options(options))
    rows = reader.option("subscribe", spec.name).option("startingOffsets", first).load()
    pinned = F.create_map(*(F.lit(number) for pair in starts.items() for number in pair))[F.col("partition")]
    early = F.raise_error(F.concat(F.lit("a record of before the hand-off: offset "), F.col("offset")))
    offset = F.when(F.col("offset") < pinned, early.cast("bigint")).otherwise(F.col("offset"))
    return rows.withColumn("offset", offset)
