"""Removes a table with all its files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_backfill.spark.session.hadoop_path import hadoop_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def remove(spark: SparkSession, location: str) -> None:
    """Remove the folder at ``location``, if it exists, and Delta's cached state."""
    path, files = hadoop_path(spark, location)
    files.delete(path, True)
    jvm: Any = spark.sparkContext._jvm
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
