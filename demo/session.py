"""A Spark session with Delta for the workload, sized for a machine that runs other things too."""

from __future__ import annotations

import os
from pathlib import Path

from pyspark.sql import SparkSession


def jars() -> Path:
    """Where the Delta jars lie: ``TABLE_BACKFILL_JARS``, or the ``jars`` folder of the repo's environment."""
    return Path(os.environ.get("TABLE_BACKFILL_JARS") or Path(__file__).parents[1] / ".venv" / "jars")


def session(name: str, *, cores: int = 1) -> SparkSession:
    """The session of spark-submit, which brings its own settings, or else a small local one."""
    builder = SparkSession.builder.appName(name)
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return builder.getOrCreate()
    return (
        builder.master(f"local[{cores}]")
        .config("spark.jars", ",".join(str(path) for path in sorted(jars().glob("*.jar"))))
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", str(cores))
        .config("spark.databricks.delta.snapshotPartitions", "2")
        .getOrCreate()
    )
