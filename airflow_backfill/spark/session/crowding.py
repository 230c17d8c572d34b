"""How much other programs, or a slow store, slow an application down, by the times of its own tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_backfill.spark.session.stages import stages

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ALONE = 1.6
"""How many times as long as they computed, tasks of a new application ran that had its cores to itself: Java compiles
beside them, and they wait for reads. Measured while plans looked for repeated keys; 1.5 to 1.65.
"""
LEAST_SECONDS = 1.0
"""Of computing. Less says nothing."""
MOST = 4.0


def crowding(spark: SparkSession) -> float:
    """How many times as long as usual the tasks so far have run for what they computed; 1 to ``MOST``."""
    ran = computed = 0.0
    for stage in stages(spark):
        ran += stage.executorRunTime() / 1e3
        computed += stage.executorCpuTime() / 1e9
    return 1.0 if computed < LEAST_SECONDS else min(max(ran / computed / ALONE, 1.0), MOST)
