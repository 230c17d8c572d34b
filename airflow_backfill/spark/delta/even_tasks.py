"""Reads files in tasks of about equal bytes, the same number for each core.

By default Spark fills one task after another up to 128 MB (counting 4 MB to open a file), and the last task gets the
rest: the other cores wait for it. A snapshot runs a job each round, and would wait in each of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from heapq import heapreplace
from typing import TYPE_CHECKING

from airflow_backfill.spark.session.temporary_settings import settings_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_BYTES = 128 << 20
"""Maximum bytes of a task: Spark's default."""
LEAST_BYTES = 8 << 20
FEW_TASKS = 16
"""On many cores a task has at least ``LEAST_BYTES``, because each task of a snapshot writes a file; but so many tasks
may be smaller.
"""
START_BYTES = 4 << 20
"""Assumed cost of starting a task, in bytes."""
STEPS = 32
"""Sizes are tried in steps of this fraction of a core's share."""


@contextmanager
def even_tasks(spark: SparkSession, sizes: Sequence[int]) -> Iterator[None]:
    """In the block, Spark reads files of these sizes (bytes) in tasks of about equal bytes."""
    confs = {
        "spark.sql.files.maxPartitionBytes": str(task_bytes(sizes, spark.sparkContext.defaultParallelism)),
        "spark.sql.files.openCostInBytes": "0",
        "spark.sql.files.minPartitionNum": "1",
    }
    with settings_for(spark, confs):
        yield


def task_bytes(sizes: Sequence[int], cores: int) -> int:
    """The maximum bytes of a task with which the last core ends soonest: a core's share, or up to half more; of little
    data up to twice as much, with which files of any sizes make at most one task for each core.
    """
    total = sum(sizes)
    tasks = cores * max(1, -(-total // (cores * MOST_BYTES)))
    share = max(1, -(-total // tasks), min(LEAST_BYTES, -(-total // FEW_TASKS)))
    most = max(share * 3 // 2, min(share * 2, MOST_BYTES))
    tries = range(share, most + 1, -(-share // STEPS))
    return min(tries, key=lambda limit: end(filled(sizes, limit), cores))


def filled(sizes: Sequence[int], limit: int) -> list[int]:
    """The bytes of Spark's tasks: slices of files, largest first, each added to the current task if it fits."""
    slices = sorted((min(limit, size - at) for size in sizes for at in range(0, size, limit)), reverse=True)
    tasks = list[int]()
    for size in slices:
        if tasks and tasks[-1] + size <= limit:
            tasks[-1] += size
        else:
            tasks.append(size)
    return tasks


def end(tasks: Sequence[int], cores: int) -> int:
    """The time (in bytes) at which the last core ends, if each free core takes the next task."""
    busy = [0] * cores
    for task in tasks:
        heapreplace(busy, busy[0] + task + START_BYTES)
    return max(busy)
