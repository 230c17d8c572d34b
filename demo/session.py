"""A Spark session with Delta for the workload. It is small, because the machine runs other processes too."""

from __future__ import annotations

import os

from pyspark.sql import SparkSession

from environment import quick


def session(name: str, *, cores: int = 1) -> SparkSession:
    """The session of spark-submit with its settings, or a small local one."""
    builder = SparkSession.builder.appName(name)
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return builder.getOrCreate()
    for setting, value in quick.confs().items():
        builder = builder.config(setting, value)
    return (
        builder.master(f"local[{cores}]")
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.driver.memory", "1g")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", str(cores))
        .config("spark.databricks.delta.snapshotPartitions", "2")
        .getOrCreate()
    )
