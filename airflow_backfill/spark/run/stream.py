"""A structured stream for the user's own query, which begins exactly where a table backfill ended."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from airflow_backfill.core.errors import NotAllowedNow
from airflow_backfill.core.state.drive import drive
from airflow_backfill.core.state.load import written_on
from airflow_backfill.core.values.phase import Phase
from airflow_backfill.ledger.reader import BuildReader
from airflow_backfill.spark.session.settings import override
from airflow_backfill.spark.strategies.strategy import rounds

_BEYOND_THE_HEAD = "spark.databricks.delta.changeDataFeed.timestampOutOfRange.enabled"


def follow(spark: SparkSession, target: str) -> DataFrame:
    """The source of a finished build after the target's epoch, as a stream in its own session.

    The first epoch is the target's epoch plus one, even if the source has not committed it yet. The rows are:

    * the change feed, with ``_change_type`` and ``_commit_version``;
    * added rows, if the build only appends;
    * a topic's records, if it has no landing table: each partition from the end offset that the plan pinned.

    The query's checkpoint makes sure that it writes each row once, to the target or elsewhere. Start one query, and no
    ``upstream`` task beside it. Call this again whenever the query is started: with its checkpoint it goes on where it
    was.

    Raises NotAllowedNow unless the build is finished; TargetDiverged if the target was replaced or restored since;
    SourceReplaced if the topic was created again. A query without a checkpoint fails if Kafka lacks those offsets.
    """
    reader = BuildReader(target, spark)
    state = drive(written_on(), reader.answer)
    if state.phase not in (Phase.FINISHED, Phase.UPSTREAM) or state.applied is None:
        raise NotAllowedNow(
            f"the build is in phase {state.phase.value}, but a stream can begin only after the hand-off; run the "
            "finish task first",
            phase=state.phase.value,
        )
    plan, session = state.plan, spark.newSession()
    override(session)
    # Only for this stream: a batch query beyond the head would return nothing, without an error.
    session.conf.set(_BEYOND_THE_HEAD, "true")
    return rounds(spark, plan, target, reader).stream(session, state)
