"""An example of a shared ingestion: lands the new records of a Kafka topic in a Delta table, each offset once.

A structured stream. Its checkpoint and the table's log both record what has landed, so a batch that was committed just
before the stream died is not written again. It fails if the topic no longer has the next records.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow_backfill.core.errors import BackfillError
from airflow_backfill.core.kafka.connection import VARIABLE
from airflow_backfill.core.kafka.topic_spec import RECORD_COLUMNS
from airflow_backfill.spark.kafka.reader_options import connection, kafka_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INTERVAL = "2 seconds"
"""Minimum time between two commits."""


def parser() -> argparse.ArgumentParser:
    """The public command line."""
    epilog = f"The environment variable {VARIABLE} holds the connection."
    arguments = argparse.ArgumentParser(prog="landing", epilog=epilog)
    arguments.add_argument("--topic", required=True, help="name of the topic")
    arguments.add_argument("--table", required=True, help="location of the landing table; created if it is missing")
    arguments.add_argument("--checkpoint", required=True, help="location of the stream's checkpoint; never delete it")
    help_ = "where the first run begins; later runs continue where the last one ended"
    arguments.add_argument("--starting-offsets", choices=("earliest", "latest"), default="latest", help=help_)
    help_ = "seconds to follow the topic; without it, one pass over the available records"
    arguments.add_argument("--max-runtime", type=float, help=help_)
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Land the available records, or follow the topic for ``--max-runtime`` seconds. Returns the exit code."""
    from airflow_backfill.spark.run.application import session

    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    options = parser().parse_args(argv)
    try:
        reached = connection()
        land(session(), reached, options)
    except BackfillError as error:
        logging.error("%s", error)
        return 1
    return 0


def land(spark: SparkSession, connection: dict[str, str], options: argparse.Namespace) -> None:
    """Land records in batches. Each batch is one commit of the table."""
    from airflow_backfill.spark.session.creation import create_table

    rows = (
        spark.readStream.format("kafka")
        .options(**kafka_options(connection))
        .option("subscribe", options.topic)
        .option("startingOffsets", options.starting_offsets)
        .load()
        .select(*RECORD_COLUMNS)
    )
    # The table can be read before the first record lands. Rows are only added, and readers without support for deletion
    # vectors can read it.
    create_table(spark, options.table, rows.schema, {"delta.enableDeletionVectors": "false"})
    writer = rows.writeStream.format("delta").option("checkpointLocation", options.checkpoint)
    if options.max_runtime is None:
        writer.trigger(availableNow=True).start(options.table).awaitTermination()
        return
    query = writer.trigger(processingTime=INTERVAL).start(options.table)
    if not query.awaitTermination(options.max_runtime):
        query.stop()
