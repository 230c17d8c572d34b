"""Which format a source has: the one place that names an implementation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_backfill.spark.delta.source import DeltaSource
from airflow_backfill.spark.source.source import Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def open_source(spark: SparkSession, location: str) -> Source:
    """The table at ``location``; nothing is read yet."""
    return DeltaSource(spark, location)
