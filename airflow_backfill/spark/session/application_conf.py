"""The settings that an application was started with. They stay as they are, whatever a session sets later."""

from __future__ import annotations

from pyspark import SparkConf
from pyspark.sql import SparkSession


def application_conf(spark: SparkSession) -> SparkConf:
    """The context's own settings, to be read only. ``SparkContext.getConf`` copies all, in five calls to Java each."""
    return spark.sparkContext._conf
