"""Checks of the target's location before a build begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_backfill.core.errors import TargetExists
from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.core.values.commit import TableMetadata
from airflow_backfill.ledger.admission import admit_target
from airflow_backfill.ledger.delta_log import DeltaLog
from airflow_backfill.ledger.open_store import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def inspect_target(spark: SparkSession, spec: BackfillSpec) -> TableMetadata | None:
    """The target's metadata if it belongs to this build; None if the location is empty; TargetExists otherwise."""
    metadata = admit_target(DeltaLog(open_store(spec.target, spark=spark)), spec)
    if metadata is None:
        _check_empty(spark, spec.target)
    return metadata


def _check_empty(spark: SparkSession, target: str) -> None:
    jvm: Any = spark.sparkContext._jvm
    path = jvm.org.apache.hadoop.fs.Path(target)
    files = path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    if not files.exists(path):
        return
    inside = [] if files.getFileStatus(path).isFile() else [f.getPath().getName() for f in files.listStatus(path)]
    # A log without a commit: another planner is creating the table.
    if inside not in ([], ["_delta_log"]) or files.getFileStatus(path).isFile():
        raise TargetExists(
            f"{target} is not empty and not a Delta table, so no target is created there; name another target, or move "
            "its files away, then clear the task",
            target=target,
        )
