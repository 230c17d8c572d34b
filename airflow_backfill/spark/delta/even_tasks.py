"""Tasks of about equal bytes, as many for each core.

Spark fills one task after the other, up to 128 MB with four of them for each file, and the last one takes what is
left: cores wait for it, once a job. A snapshot is a job each round, and would wait in every one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from heapq import heapreplace
from typing import TYPE_CHECKING

from airflow_backfill.spark.session.temporary_settings import settings_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST = 128 << 20
"""Bytes of a task, as Spark has them."""
START = 4 << 20
"""What starting a task is taken to cost."""
STEPS = 32
"""Number of tasks per share, when a better size is looked for."""


@contextmanager
def even_tasks(spark: SparkSession, sizes: Sequence[int]) -> Iterator[None]:
    """While the block lasts, files of these sizes are read in tasks of about equal bytes."""
    confs = {
        "spark.sql.files.maxPartitionBytes": str(task_bytes(sizes, spark.sparkContext.defaultParallelism)),
        "spark.sql.files.openCostInBytes": "0",
        "spark.sql.files.minPartitionNum": "1",
    }
    with settings_for(spark, confs):
        yield


def task_bytes(sizes: Sequence[int], cores: int) -> int:
    """Up to how many bytes a task is filled so that the last core ends soonest: a core's share, or up to half more,
    because files are whole.
    """
    total = sum(sizes)
    tasks = cores * max(1, -(-total // (cores * MOST)))
    share = max(1, -(-total // tasks))
    tries = (share + share * step // STEPS for step in range(STEPS // 2))
    return min(tries, key=lambda limit: end(filled(sizes, limit), cores))


def filled(sizes: Sequence[int], limit: int) -> list[int]:
    """Spark's tasks: slices of files, the largest first, each into the task before if it has room."""
    slices = sorted((min(limit, size - at) for size in sizes for at in range(0, size, limit)), reverse=True)
    tasks = list[int]()
    for size in slices:
        if tasks and tasks[-1] + size <= limit:
            tasks[-1] += size
        else:
            tasks.append(size)
    return tasks


def end(tasks: Sequence[int], cores: int) -> int:
    """When the last core ends, each taking the next task as soon as it is free."""
    busy = [0] * cores
    for task in tasks:
        heapreplace(busy, busy[0] + task + START)
    return max(busy)
