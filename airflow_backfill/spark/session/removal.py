"""Removes a table with all its files."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow_backfill.core.errors import BackfillError, Fenced, NotPlanned
from airflow_backfill.core.model.record import generation_in
from airflow_backfill.ledger.admission import OWNER
from airflow_backfill.ledger.control_folder import OF_A_BUILD, ControlFolder, location_beside
from airflow_backfill.ledger.delta_log import DeltaLog
from airflow_backfill.ledger.open_store import open_store
from airflow_backfill.spark.delta_internals import forget
from airflow_backfill.spark.session.hadoop_path import hadoop_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)


def remove(spark: SparkSession, location: str) -> None:
    """Remove the folder at ``location``, if it exists, and what this process has read of its table."""
    path, files = hadoop_path(spark, location)
    files.delete(path, True)
    forget(spark, location)


def table_at(spark: SparkSession, target: str) -> str | None:
    """The id of the table at the target; None if nothing readable is there."""
    try:
        return DeltaLog(open_store(target, spark=spark)).protocol_and_metadata()[1].table_id
    except BackfillError as error:
        if error.retry:
            raise
        return None


def drop_target(spark: SparkSession, target: str, table: str | None) -> None:
    """Remove the target and its control folder, except the attempts. If it is stopped, the next one ends it, whatever
    is left. NotPlanned if a build did not create the target. ``table`` is ``table_at`` before its build was ended:
    Fenced if there is another one now. This one is late then, because another drop and a new plan came first.
    """
    control, table_log = ControlFolder.beside(target, spark), DeltaLog(open_store(target, spark=spark))
    try:
        _, metadata = table_log.protocol_and_metadata()
    except BackfillError as error:
        if error.retry or not (control.dropping or _is_ours(table_log)):
            raise
    else:
        if OWNER not in metadata.configuration:
            raise NotPlanned(
                f"{target} was not created by a table backfill, so it is not removed; correct the target, or remove "
                "the table yourself",
                target=target,
            )
        if metadata.table_id != table:
            raise Fenced(
                f"another table stands at {target} than when this drop began: the old one was dropped meanwhile, and "
                "planned again; nothing was removed",
                target=target,
            )
    control.begin_drop()
    remove(spark, target)
    for folder in OF_A_BUILD:
        if not control.dropping:
            return  # another drop has ended this one, and a new build may be there
        remove(spark, f"{location_beside(target)}/{folder}")
    control.end_drop()
    log.info("dropped %s", target)


def _is_ours(table_log: DeltaLog) -> bool:
    """Whether the newest commit that tells so is a build's. A writer that was committing while its target was dropped
    may leave its commit alone, or behind a gap in the log of the next table.
    """
    try:
        for commit in table_log.read_each(table_log.versions(-1)[::-1]):
            if commit is not None and (generation_in(commit) or commit.metadata is not None):
                return commit.metadata is None or OWNER in commit.metadata.configuration
    except BackfillError:
        pass
    return False
