"""TPC-H as Delta tables with change data feed and deletion vectors, as a source of table backfills.

Version 0 holds the rows of TPC-H and, for one order in 200, a second one with a key in the gap; version 1
deletes those. So the tables are equal to TPC-H, and their files carry deletion vectors from the start.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from pyspark.sql import SparkSession

from demo.session import session
from demo.tpch import BLOCK, TABLES, USED, Table, files

BASE_VERSION = 1
"""The version at which a loaded table equals TPC-H."""
GHOST_EVERY = 25 * BLOCK


def load(spark: SparkSession, raw: Path, tables: Path) -> None:
    """Both tables stand under ``tables`` at ``BASE_VERSION``; fails if one is there already."""
    for table in TABLES.values():
        load_table(spark, raw, tables, table)


def load_table(spark: SparkSession, raw: Path, tables: Path, table: Table) -> None:
    """One data file per parquet file of ``raw``, without a shuffle, so file statistics prune by key.

    Files stay of that size: without ``delta.targetFileSize`` delta-rs makes one file of all that a change touches.
    """
    parts = files(raw, table)
    largest = max(path.stat().st_size for path in parts)
    own = spark.newSession()
    own.conf.set("spark.sql.files.maxPartitionBytes", largest)
    # Spark's Delta does not know that property, and refuses what it does not know.
    own.conf.set("spark.databricks.delta.allowArbitraryProperties.enabled", True)
    key = table.order_key
    with_ghost = f"explode(if({key} % {GHOST_EVERY} = 1, array({key}, {key} + {USED}), array({key}))) AS {key}"
    rows = own.read.parquet(*(str(path) for path in parts))
    rows.selectExpr(*(with_ghost if column == key else column for column in rows.columns)).createTempView("rows")
    target = f"delta.`{(tables / table.name).absolute()}`"
    own.sql(
        f"""CREATE TABLE {target} USING delta TBLPROPERTIES (
        delta.enableChangeDataFeed = true, delta.enableDeletionVectors = true, delta.targetFileSize = {largest})
        AS SELECT * FROM rows"""
    )
    own.sql(f"DELETE FROM {target} WHERE {key} % {BLOCK} >= {USED}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("raw", type=Path, help="parquet files that demo.tpch made")
    parser.add_argument("tables", type=Path, help="directory that gets a Delta table for each")
    arguments = parser.parse_args()
    load(session("load", cores=2), arguments.raw, arguments.tables)
