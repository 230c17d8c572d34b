"""A shared ingestion as an example: lands the new records of a Kafka topic in a Delta table, each offset once.

A structured stream, whose checkpoint says what has landed; the table's own log says it, too, so that a batch that was
committed just before the stream died is not written again. A topic that no longer has what comes next is an error.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow_backfill.core.errors import BackfillError
from airflow_backfill.core.kafka.connection import VARIABLE
from airflow_backfill.spark.kafka.reader_options import connection, kafka_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
"""The columns of a landing table, with the names and types of Spark's Kafka source."""
INTERVAL = "2 seconds"
"""Between two commits, at least."""


def parser() -> argparse.ArgumentParser:
    """The command line. It is public: any launcher may call it."""
    arguments = argparse.ArgumentParser(prog="landing", epilog=f"The connection is in the environment: {VARIABLE}.")
    arguments.add_argument("--topic", required=True, help="name of the topic")
    arguments.add_argument("--table", required=True, help="location of the landing table; made if it is not there")
    arguments.add_argument("--checkpoint", required=True, help="location of the stream's own notes, kept for good")
    help_ = "where the first run begins; later ones go on where the last one ended"
    arguments.add_argument("--starting-offsets", choices=("earliest", "latest"), default="latest", help=help_)
    arguments.add_argument("--max-runtime", type=float, help="seconds to follow the topic; one pass if not given")
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Land what there is, or for as long as was asked for; 0 if that went well."""
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
    """Land records in batches, each one commit of the table."""
    rows = (
        spark.readStream.format("kafka")
        .options(**kafka_options(connection))
        .option("subscribe", options.topic)
        .option("startingOffsets", options.starting_offsets)
        .load()
        .select(*COLUMNS)
    )
    _make(spark, options.table, rows.schema)
    writer = rows.writeStream.format("delta").option("checkpointLocation", options.checkpoint)
    if options.max_runtime is None:
        writer.trigger(availableNow=True).start(options.table).awaitTermination()
        return
    query = writer.trigger(processingTime=INTERVAL).start(options.table)
    if not query.awaitTermination(options.max_runtime):
        query.stop()


def _make(spark: SparkSession, table: str, schema: StructType) -> None:
    """An empty table, so that it can be looked at before the first record has come."""
    from delta.tables import DeltaTable

    new = DeltaTable.createIfNotExists(spark).location(table).addColumns(schema)
    # Rows are only added, and readers that know no deletion vectors shall read them.
    new.property("delta.enableDeletionVectors", "false").execute()
