"""Merges small files of the target, and clusters a clustered one, if its properties ask for it: Delta's own property
``delta.autoOptimize.autoCompact``, which its owner may set, and which a clustered target has from the start.

Delta's automatic compaction runs inside of a write and would repeat the write's record, so it is off in every session
of a build. This is an OPTIMIZE of its own after a committed round of the log, or before the snapshot is sealed. It
changes no row. If another writer comes first, or if it fails, the build goes on, and a later round tries again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from delta.tables import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_backfill.ledger.reader import BuildReader
from airflow_backfill.spark.delta_internals import DeltaVersion
from airflow_backfill.spark.session.failure import coded
from airflow_backfill.spark.session.temporary_settings import settings_for
from airflow_backfill.spark.target_table.clustering import cubes_up_to

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

ASKED = "delta.autoOptimize.autoCompact"
LEAST_FILES = 50
"""So many small files are merged at once, as by Delta's own compaction."""
SMALL_BYTES = 64 << 20
WHOLE_BYTES = 128 << 20
"""The size that merged files have."""
CLUSTERED_BYTES = 32 << 20
"""The size that clustered files have: a MERGE reads each file that may hold a changed key."""
_OPTIMIZE = "spark.databricks.delta.optimize"


def compact(spark: SparkSession, reader: BuildReader) -> None:
    """Merge the small files of the target, if it has enough of them and its properties ask for it. Costs nothing if
    they do not.
    """
    if reader.properties.get(ASKED, "false").lower() == "false":
        return
    target = reader.target
    try:
        version = DeltaVersion(spark, target, reader.log.head())
        settings = _clustering(version.files) if version.clustered else _merging(version.files)
        if settings is None:
            return
        with settings_for(spark, settings):
            DeltaTable.forPath(spark, target).optimize().executeCompaction()
        log.info("%s of the target", "clustered files" if version.clustered else "merged small files")
    except Exception as error:
        log.warning("files of the target were not merged, a later round tries again: %s", coded(error))


def _merging(files: DataFrame) -> Mapping[str, str] | None:
    """The settings of an OPTIMIZE that merges the small files; None if they are few."""
    if files.where(F.col("size") < SMALL_BYTES).count() < LEAST_FILES:
        return None
    # Large files with deleted rows stay: rewriting them between two rounds could take hours.
    return {
        f"{_OPTIMIZE}.minFileSize": str(SMALL_BYTES),
        f"{_OPTIMIZE}.maxFileSize": str(WHOLE_BYTES),
        f"{_OPTIMIZE}.maxDeletedRowsRatio": "1",
    }


def _clustering(files: DataFrame) -> Mapping[str, str] | None:
    """The settings of an OPTIMIZE that clusters the loose files; None if they are few."""
    bytes = cubes_up_to(files, LEAST_FILES, SMALL_BYTES)
    if bytes is None:
        return None
    return {
        f"{_OPTIMIZE}.maxFileSize": str(CLUSTERED_BYTES),
        f"{_OPTIMIZE}.clustering.mergeStrategy.minCubeSize.threshold": str(bytes),
    }
