"""Whether executors see a folder on ``file:`` that the driver sees."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_backfill.core.errors import InvalidSpec
from airflow_backfill.ledger.control_folder import location_beside
from airflow_backfill.ledger.java_error import innermost
from airflow_backfill.ledger.location import Location
from airflow_backfill.spark.session.failure import history_lost
from airflow_backfill.spark.session.settings import cluster_cores
from airflow_backfill.spark.session.temporary_settings import settings_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES_PER_CORE = 4
MOST_FILES = 1000


def check_shared(spark: SparkSession, target: str) -> None:
    """InvalidSpec if the target is on ``file:`` and an executor does not see what the driver writes beside it.

    Such executors would write rows to their own disks. Each of many small files is read in a task of its own, so that
    every executor is likely to read one.
    """
    location = Location.parse(target)
    if not location.local or spark.sparkContext.master.startswith("local"):
        return
    folder, count = (
        Path(location_beside(location.path)) / "seen",
        min(FILES_PER_CORE * cluster_cores(spark), MOST_FILES),
    )
    folder.mkdir(parents=True, exist_ok=True)
    try:
        for number in range(count):
            (folder / f"{number}.txt").write_text("seen\n")
        with settings_for(spark, {"spark.sql.files.maxPartitionBytes": "1"}):
            seen = spark.read.text(folder.as_uri()).count()
    except Exception as error:
        if history_lost(error) is None:
            raise
        raise _hidden(target, innermost(error)) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if seen != count:
        raise _hidden(target, f"{seen} of {count} files were read")


def _hidden(target: str, why: str) -> InvalidSpec:
    return InvalidSpec(
        f"target: {target} is on the driver's machine, and an executor does not see it ({why}), so its rows would be "
        "lost; name a location that all machines share (s3a:, abfss:, gs:, hdfs:, or a mounted folder)",
        field="target",
    )
