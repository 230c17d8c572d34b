"""A structured stream of the user's own that goes on exactly where a table backfill was handed over."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from airflow_backfill.core.errors import NotAllowedNow
from airflow_backfill.core.values.phase import Phase
from airflow_backfill.ledger.reader import BuildReader
from airflow_backfill.spark.session.settings import read_as_written
from airflow_backfill.spark.strategies.strategy import rounds

_BEYOND_THE_HEAD = "spark.databricks.delta.changeDataFeed.timestampOutOfRange.enabled"


def follow(spark: SparkSession, target: str) -> DataFrame:
    """What the source of a finished build got after the target's epoch, as a stream in a session of its own.

    Its first epoch is the target's plus one, also if the source has not got there yet. The rows are those of the change
    feed, with ``_change_type`` and ``_commit_version``; of a source that only adds rows, the rows that were added; of a
    topic without a landing table its records, each partition from the offset that the plan pinned as its end.
    Where the query writes, and that it writes once, is up to its checkpoint: start it once, and let nobody else follow.

    Raises NotAllowedNow unless the build is finished; KafkaLost or SourceReplaced if the topic does not reach back.
    """
    reader = BuildReader(target, spark)
    state = reader.state()
    if state.phase not in (Phase.FINISHED, Phase.UPSTREAM) or state.applied is None:
        raise NotAllowedNow(f"the build is in {state.phase.value}: nothing is handed over", phase=state.phase.value)
    plan, session = state.plan, spark.newSession()
    read_as_written(session)
    # Only for this stream: a batch that asks for what is not there yet would be given nothing, without an error.
    session.conf.set(_BEYOND_THE_HEAD, "true")
    return rounds(spark, plan, target, reader).stream(session, state)
