"""Hadoop's path and file system for a location."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def hadoop_path(spark: SparkSession, location: str) -> tuple[Any, Any]:
    """Hadoop's path of a location, and the file system that it is on, as the session is configured."""
    path: Any = spark.sparkContext._jvm.org.apache.hadoop.fs.Path(location)
    return path, path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
