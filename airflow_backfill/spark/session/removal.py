"""Removes a table with all its files."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow_backfill.core.errors import BackfillError, NotPlanned
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


def drop_target(spark: SparkSession, target: str) -> None:
    """Remove the target and its control folder, except the attempts. If it is stopped, the next one ends it, whatever
    is left. NotPlanned if a build did not create the target.
    """
    control = ControlFolder.beside(target, spark)
    try:
        _, metadata = DeltaLog(open_store(target, spark=spark)).protocol_and_metadata()
    except BackfillError as error:
        if error.retry or not control.dropping:
            raise
    else:
        if OWNER not in metadata.configuration:
            raise NotPlanned(
                f"{target} was not created by a table backfill, so it is not removed; correct the target, or remove "
                "the table yourself",
                target=target,
            )
    control.begin_drop()
    remove(spark, target)
    for folder in OF_A_BUILD:
        remove(spark, f"{location_beside(target)}/{folder}")
    control.end_drop()
    log.info("dropped %s", target)
