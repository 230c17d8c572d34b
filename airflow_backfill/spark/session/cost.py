"""What an application has cost so far, as Spark counts it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def cost(spark: SparkSession) -> dict[str, float]:
    """``core_seconds``: the time of all tasks together. ``read_bytes``: of tables and topics. ``shuffled_bytes``: what
    tasks have written for each other. Of all executors that Spark still knows (the last hundred that ended).
    """
    executors = spark.sparkContext._jsc.sc().statusStore().executorList(False)
    known = [executors.apply(number) for number in range(executors.size())]
    return {
        "core_seconds": sum(one.totalDuration() for one in known) / 1000,
        "read_bytes": sum(one.totalInputBytes() for one in known),
        "shuffled_bytes": sum(one.totalShuffleWrite() for one in known),
    }
