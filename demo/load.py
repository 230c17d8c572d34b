"""TPC-H as Delta tables with change data feed and deletion vectors, the sources of the demo's builds.

Version 0 has the generator's parquet files, unchanged. Then the rows of one order in 200 are deleted and inserted
again. So the tables equal TPC-H, and their files have deletion vectors from the start.
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
    """Create both tables under ``tables``, at ``BASE_VERSION``. Fails if one exists."""
    for table in TABLES.values():
        load_table(spark, raw, tables, table)


def load_table(spark: SparkSession, raw: Path, tables: Path, table: Table) -> None:
    """Create one table: a data file for each parquet file of ``raw`` (a range of keys), and one with the rows that are
    inserted again.

    ``delta.targetFileSize`` keeps files that small: without it, delta-rs rewrites all files of a change into one.
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
    parser.add_argument("raw", type=Path, help="directory of the parquet files of demo.tpch")
    parser.add_argument("tables", type=Path, help="directory for the Delta tables")
    arguments = parser.parse_args()
    load(session("load", cores=2), arguments.raw, arguments.tables)
