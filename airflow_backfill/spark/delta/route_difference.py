"""The changes between two versions, from the files that differ: each is read once, however many epochs touched it.

Rows of added files are added, and rows of removed files are removed. In files with another deletion vector only the
rows that it hides or reveals are read. All changes get the last epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_backfill.core.values.epoch import EpochRange
from airflow_backfill.spark.delta.epoch_files import action_lines
from airflow_backfill.spark.delta.net_files import NetFiles
from airflow_backfill.spark.delta.vector_changes import Actions, changes_of_each
from airflow_backfill.spark.delta_internals import DeltaVersion
from airflow_backfill.spark.source.changes import DELETE, INSERT, PRE_IMAGE
from airflow_backfill.spark.transform.transform import quoted


def read_difference(
    version: DeltaVersion, epochs: EpochRange, net: NetFiles, columns: Sequence[str], key: Sequence[str] | None
) -> DataFrame:
    """The changes. Removed rows have only their ``key`` columns, the others are null; all columns if it is None.

    If files were both added and removed, rows may only have moved. Then removed rows are complete pre-images, so that
    the net change can recognize unchanged rows.
    """
    epoch = epochs.last
    before, after = [old for old, _ in net.masked], [new for _, new in net.masked]
    wanted = {"add": {*net.added, *after}, "remove": {*net.removed, *before}}
    lines = action_lines(version.spark, version.path, epochs, wanted)
    parts = []
    if net.added:
        parts.append(_changes(version, Actions(epoch, [lines["add"][f] for f in net.added])))
    if net.removed:
        gone = _changes(version, Actions(epoch, (), [lines["remove"][f] for f in net.removed]))
        parts.append(gone.withColumn("_change_type", F.lit(PRE_IMAGE)) if net.moved else _keys_only(gone, columns, key))
    if net.masked:
        masked = Actions(epoch, [lines["add"][f] for f in after], [lines["remove"][f] for f in before])
        both = _changes(version, masked)
        parts.append(_keys_only(both.where(F.col("_change_type") == DELETE), columns, key))
        parts.append(both.where(F.col("_change_type") == INSERT))
    if not parts:
        parts.append(_changes(version, Actions(epoch)))
    chosen = [*(quoted(c) for c in columns), "_change_type", "_commit_version"]
    return reduce(DataFrame.unionByName, (part.select(*chosen) for part in parts))


def _changes(version: DeltaVersion, actions: Actions) -> DataFrame:
    return changes_of_each(version, [actions])


def _keys_only(rows: DataFrame, columns: Sequence[str], key: Sequence[str] | None) -> DataFrame:
    if key is None:
        return rows
    kept = {k.lower() for k in key}
    values = [
        F.col(quoted(c)) if c.lower() in kept else F.lit(None).cast(rows.schema[c].dataType).alias(c) for c in columns
    ]
    return rows.select(*values, "_change_type", "_commit_version")
