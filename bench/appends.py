"""An append with a transaction id to a table of many files: as a build's round makes it, and by Delta's own writer."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from airflow_backfill.ledger.log_listing import LOG, commit_name
from airflow_backfill.spark.session.settings import size_session
from airflow_backfill.spark.target_table.apply import Txn, append
from bench.ratio import Contender, Race, Timed
from bench.tables import Tables

FILES = (1_000, 200_000)
COMMITS = 5
"""In each run. The first one also reads the table's checkpoint."""


def appends(spark: SparkSession, tables: Tables, files: int, rounds: int) -> Race:
    """A few rows, added to a table of so many files, of which only the log is there."""
    size_session(spark, table_files=files)
    table, rows = _with_files(spark, tables, files), spark.range(20).localCheckpoint()

    def contender(name: str, add: Callable[[DataFrame, str, int], None]) -> Contender:
        def prepare(number: int) -> Timed:
            target = tables.copied(table, f"{name}-{files}-{number}")

            def commits() -> None:
                for seq in range(1, COMMITS + 1):
                    add(rows, target, seq)

            return commits

        return prepare

    title = f"{COMMITS} appends to a table of {files:,} files"
    contenders = {
        "table backfill": contender("ours", lambda rows, target, seq: append(rows, target, Txn("bench", seq), "{}")),
        "Delta's append with a transaction id": contender("deltas", _by_delta),
    }
    return Race(title, contenders).run(rounds)


def _by_delta(rows: DataFrame, target: str, seq: int) -> None:
    writer = rows.write.format("delta").mode("append").option("txnAppId", "bench").option("txnVersion", str(seq))
    writer.option("userMetadata", "{}").save(target)


def _with_files(spark: SparkSession, tables: Tables, files: int) -> str:
    path = tables.fresh(f"of-{files}-files")
    spark.range(20).write.format("delta").save(path)
    lines = [json.dumps({"commitInfo": {"timestamp": 0, "operation": "WRITE"}})]
    for number in range(files):
        stats = {"numRecords": 10, "minValues": {"id": number}, "maxValues": {"id": number}, "nullCount": {"id": 0}}
        add = {"path": f"part-{number:08}.parquet", "partitionValues": {}, "size": 1 << 27, "modificationTime": 0}
        lines.append(json.dumps({"add": {**add, "dataChange": True, "stats": json.dumps(stats)}}))
    Path(path, LOG, commit_name(1)).write_text("\n".join(lines))
    DeltaTable(path).create_checkpoint()
    return path
