"""Removes a table with all its files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def remove(spark: SparkSession, location: str) -> None:
    """Remove the folder at ``location``, if it exists, and Delta's cached state."""
    jvm: Any = spark.sparkContext._jvm
    path = jvm.org.apache.hadoop.fs.Path(location)
    path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf()).delete(path, True)
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
