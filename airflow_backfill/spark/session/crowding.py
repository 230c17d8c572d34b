"""How much other programs, a slow store, or the machine slow an application down, by the times of its own tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
FIRST_SECONDS, ROW_SECONDS = 2.65, 0.4e-6
"""What a new application computes until it has counted the keys of a source, and for each of them, in seconds of one
core, on a machine on which ``Speeds.usual`` are right.
"""
FASTEST, SLOWEST = 0.4, 2.5


def crowding(spark: SparkSession) -> float:
    """How many times as long as usual the tasks so far have run for what they computed; 1 to ``MOST``."""
    ran = computed = 0.0
    for stage in stages(spark):
        ran += stage.executorRunTime() / 1e3
        computed += stage.executorCpuTime() / 1e9
    return 1.0 if computed < LEAST_SECONDS else min(max(ran / computed / ALONE, 1.0), MOST)


def pace(spark: SparkSession, rows: int, since: int) -> float:
    """How many times as long as usual this machine computes, by what the count of a source's ``rows`` by key took it
    ``since`` a time in milliseconds; ``FASTEST`` to ``SLOWEST``. 1 on a cluster: it has several machines.
    """
    if not spark.sparkContext.master.startswith("local"):
        return 1.0
    recent = (stage for stage in stages(spark) if _submitted(stage) >= since)
    computed = sum(stage.executorCpuTime() for stage in recent) / 1e9
    usual = FIRST_SECONDS + rows * ROW_SECONDS
    return 1.0 if computed < LEAST_SECONDS else min(max(computed / usual, FASTEST), SLOWEST)


def _submitted(stage: Any) -> int:
    """When the stage began, in milliseconds since 1970; 0 if it has not."""
    at = stage.submissionTime()
    return int(at.get().getTime()) if at.isDefined() else 0
