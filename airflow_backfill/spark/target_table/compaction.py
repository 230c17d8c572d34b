"""Merges small files of the target, if its owner asks for it with Delta's own property
``delta.autoOptimize.autoCompact``.

Delta's automatic compaction runs inside of a write and would repeat the write's record, so it is off in every session
of a build. This is an OPTIMIZE of its own after a committed round. It changes no row. If another writer comes first, or
if it fails, the round stands, and a later round tries again.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from delta.tables import DeltaTable
from pyspark.sql import functions as F

from airflow_backfill.ledger.reader import BuildReader
from airflow_backfill.spark.delta_internals import DeltaVersion
from airflow_backfill.spark.session.failure import coded
from airflow_backfill.spark.session.temporary_settings import settings_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

ASKED = "delta.autoOptimize.autoCompact"
LEAST_FILES = 50
"""So many small files are merged at once, as by Delta's own compaction."""
SMALL_BYTES = 64 << 20
WHOLE_BYTES = 128 << 20
"""The size that merged files have."""


def compact(spark: SparkSession, reader: BuildReader) -> None:
    """Merge the small files of the target, if it has enough of them and its properties ask for it. Costs nothing if
    they do not.
    """
    if reader.properties.get(ASKED, "false").lower() == "false":
        return
    target = reader.target
    settings = {
        "spark.databricks.delta.optimize.minFileSize": str(SMALL_BYTES),
        "spark.databricks.delta.optimize.maxFileSize": str(WHOLE_BYTES),
        # Large files with deleted rows stay: rewriting them between two rounds could take hours.
        "spark.databricks.delta.optimize.maxDeletedRowsRatio": "1",
    }
    try:
        small = DeltaVersion(spark, target, reader.log.head()).files.where(F.col("size") < SMALL_BYTES).count()
        if small < LEAST_FILES:
            return
        with settings_for(spark, settings):
            DeltaTable.forPath(spark, target).optimize().executeCompaction()
        log.info("merged %d small files of the target", small)
    except Exception as error:
        log.warning("small files were not merged, a later round tries again: %s", coded(error))
