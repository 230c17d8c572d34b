"""Opens a source. The only module that names a format's implementation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_backfill.spark.delta.source import DeltaSource
from airflow_backfill.spark.source.source import Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def open_source(spark: SparkSession, location: str) -> Source:
    """The table at ``location``. Reads nothing yet."""
    return DeltaSource(spark, location)
