"""Creates Delta tables that others may be creating at the same time."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from delta.tables import DeltaTable
from pyspark.sql.types import StructType

from airflow_backfill.core.errors import SourceNotDelta, TargetExists
from airflow_backfill.ledger.delta_log import DeltaLog
from airflow_backfill.ledger.log_listing import LOG, LogListing
from airflow_backfill.ledger.open_store import open_store
from airflow_backfill.spark.session.failure import conflict_of
from airflow_backfill.spark.session.hadoop_path import hadoop_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TRIES = 8
SHOWN = 3
"""Files that an error names."""
_HALF_MADE = ("DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION", "DELTA_TABLE_NOT_FOUND")
"""What Delta says of a folder with a log that has no commit."""
_UNFINISHED = re.compile(r"\..*\.(tmp|crc)|_staged_commits")
"""What Delta writes before a commit has its name."""


def create_table(
    spark: SparkSession,
    location: str,
    schema: StructType,
    properties: Mapping[str, str],
    cluster_by: Sequence[str] = (),
    *,
    dropped: bool = False,
) -> None:
    """Create an empty table, unless there is one. If several do so at once, the first one's table stays. What a creator
    left that was stopped is removed. TargetExists if there are files of another kind. ``dropped``: a table was dropped
    there just now, and what its attempts still write is removed.
    """
    table = DeltaTable.createIfNotExists(spark).location(location).addColumns(schema)
    for name, value in properties.items():
        table = table.property(name, value)
    if cluster_by:
        table = table.clusterBy(list(cluster_by))
    for left in reversed(range(TRIES)):
        try:
            table.execute()
            return
        except Exception as error:
            if has_table(spark, location):
                return
            late = dropped and _remove_late(spark, location)
            half_made = any(text in str(error) for text in _HALF_MADE)
            if not left or not (late or half_made or conflict_of(error) is not None):
                check_free(spark, location)
                raise
            if left == 1:
                _remove_half_made(spark, location)
            time.sleep(0.2 * (TRIES - left))


def has_table(spark: SparkSession, location: str) -> bool:
    """Whether there is a Delta table. One that is being created has no commit, so it is none."""
    try:
        DeltaLog(open_store(location, spark=spark)).head()
    except SourceNotDelta:
        return False
    return True


def check_free(spark: SparkSession, location: str) -> None:
    """TargetExists if there is anything but the log of a table that is being created."""
    path, files = hadoop_path(spark, location)
    if not files.exists(path):
        return
    inside = None if files.getFileStatus(path).isFile() else [f.getPath().getName() for f in files.listStatus(path)]
    if inside not in ([], [LOG]):
        raise TargetExists(
            f"{location} is not empty and not a Delta table, so no table is created there; name another location, or "
            "move its files away, then clear the task",
            target=location,
        )


def _remove_late(spark: SparkSession, location: str) -> bool:
    """Remove the data files of a folder without a table; whether there were any. They are listed before the look for a
    table, so none belongs to a table that another writer creates meanwhile.
    """
    path, files = hadoop_path(spark, location)
    found = [status.getPath() for status in files.listStatus(path)] if files.exists(path) else []
    late = [] if has_table(spark, location) else [one for one in found if one.getName() != LOG]
    for one in late:
        files.delete(one, True)
    return bool(late)


def _remove_half_made(spark: SparkSession, location: str) -> None:
    """Remove a log with nothing but temporary files. One by one, so that a commit which another writer adds meanwhile
    stays. TargetExists if there is any other file.
    """
    log, files = hadoop_path(spark, f"{location}/{LOG}")
    if not files.exists(log):
        return
    found = [status.getPath() for status in files.listStatus(log)]
    others = sorted(name for path in found if not _UNFINISHED.fullmatch(name := path.getName()))
    if LogListing.of(others).head is not None:
        return
    if others:
        raise TargetExists(
            f"{location} has a log without a commit, but with {', '.join(others[:SHOWN])}, so no table is created "
            "there; name another location, or move its files away, then clear the task",
            target=location,
        )
    for path in (*found, log):
        files.delete(path, False)
