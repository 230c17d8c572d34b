"""TPC-H as Delta tables with change data feed and deletion vectors, as a source of table backfills.

Version 0 is the generator's own parquet files, taken over as they are; then the rows of one order in
200 are deleted, and put back. So the tables are equal to TPC-H, and their files carry deletion vectors
from the start.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from deltalake import convert_to_deltalake, write_deltalake
from pyarrow import compute
from pyspark.sql import SparkSession

from demo.session import session
from demo.tpch import BLOCK, TABLES, Table, batches, files

BASE_VERSION = 2
"""The version at which a loaded table equals TPC-H."""
MOVED_EVERY = 25 * BLOCK


def load(spark: SparkSession, raw: Path, tables: Path) -> None:
    """Both tables stand under ``tables`` at ``BASE_VERSION``; fails if one is there already."""
    for table in TABLES.values():
        load_table(spark, raw, tables, table)


def load_table(spark: SparkSession, raw: Path, tables: Path, table: Table) -> None:
    """One data file per parquet file of ``raw``, which holds a range of keys, and one with the rows that were put back.

    Files stay of that size: without ``delta.targetFileSize`` delta-rs makes one file of all that a change touches.
    """
    parts = files(raw, table)
    place = (tables / table.name).absolute()
    place.mkdir(parents=True)
    for part in parts:
        shutil.copy(part, place)
    largest = max(path.stat().st_size for path in parts)
    convert_to_deltalake(
        place,
        configuration={
            "delta.enableChangeDataFeed": "true",
            "delta.enableDeletionVectors": "true",
            "delta.targetFileSize": str(largest),
        },
    )
    # Only Spark writes deletion vectors.
    spark.sql(f"DELETE FROM delta.`{place}` WHERE {table.order_key} % {MOVED_EVERY} = 1")
    moved = compute.modulo(compute.field(table.order_key), MOVED_EVERY) == 1
    write_deltalake(place, batches(parts, moved), mode="append")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("raw", type=Path, help="parquet files that demo.tpch made")
    parser.add_argument("tables", type=Path, help="directory that gets a Delta table for each")
    arguments = parser.parse_args()
    load(session("load", cores=2), arguments.raw, arguments.tables)
