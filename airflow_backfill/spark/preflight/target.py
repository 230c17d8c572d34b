"""Checks of the target's location before a build begins."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from airflow_backfill.core.errors import InvalidSpec, TargetExists
from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.core.values.commit import TableMetadata
from airflow_backfill.ledger.admission import admit_target
from airflow_backfill.ledger.delta_log import DeltaLog
from airflow_backfill.ledger.log_listing import LOG, LogListing
from airflow_backfill.ledger.open_store import open_store
from airflow_backfill.spark.delta_internals import DeltaVersion
from airflow_backfill.spark.session.hadoop_path import hadoop_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_UNFINISHED = re.compile(r"\..*\.(tmp|crc)|_staged_commits")
"""What Delta writes before a commit has its name."""
SHOWN = 3
"""Files that an error names."""


def inspect_target(spark: SparkSession, spec: BackfillSpec) -> TableMetadata | None:
    """The target's metadata if it belongs to this build; None if the location is empty; TargetExists otherwise."""
    metadata = admit_target(DeltaLog(open_store(spec.target, spark=spark)), spec)
    if metadata is None:
        _check_empty(spark, spec.target)
    return metadata


def check_clustered(spark: SparkSession, spec: BackfillSpec, metadata: TableMetadata) -> None:
    """InvalidSpec if the target that exists has to be clustered and is not: a plan clusters only what it creates."""
    if spec.clustering != "key":
        return
    version = DeltaLog(open_store(spec.target, spark=spark)).head()
    if not DeltaVersion(spark, spec.target, version).clustered:
        raise InvalidSpec(
            f"clustering: {spec.target} exists and is {_how_it_is(metadata)}; or remove the option", field="clustering"
        )


def _how_it_is(metadata: TableMetadata) -> str:
    if metadata.partition_columns:
        by = ", ".join(metadata.partition_columns)
        return f"partitioned by {by}, and Delta clusters no partitioned table: drop it, so that the plan creates it"
    return "not clustered: cluster it (ALTER TABLE … CLUSTER BY) and set delta.autoOptimize.autoCompact"


def remove_half_made(spark: SparkSession, target: str) -> None:
    """Remove the log of a table that a planner was stopped to create: a folder with nothing but temporary files. One
    by one, so that a commit which another writer adds meanwhile stays. TargetExists if there is any other file.
    """
    log, files = hadoop_path(spark, f"{target}/{LOG}")
    if not files.exists(log):
        return
    found = [status.getPath() for status in files.listStatus(log)]
    others = sorted(name for path in found if not _UNFINISHED.fullmatch(name := path.getName()))
    if LogListing.of(others).head is not None:
        return
    if others:
        raise TargetExists(
            f"{target} has a log without a commit, but with {', '.join(others[:SHOWN])}, so no target is created "
            "there; name another target, or move its files away, then clear the task",
            target=target,
        )
    for path in (*found, log):
        files.delete(path, False)


def _check_empty(spark: SparkSession, target: str) -> None:
    path, files = hadoop_path(spark, target)
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
