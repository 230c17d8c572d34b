"""Ends an application whose task was killed, although no newer attempt has begun.

Where spark-submit runs the driver on the worker's machine, the driver knows the process of the task. If that was
killed, nobody tells spark-submit, and nobody can rejoin the application: it would hold its memory for hours.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from typing import TYPE_CHECKING

from airflow_backfill.ledger.process import TASK, lives
from airflow_backfill.spark.run.watchdog import ending_once

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK_SECONDS = 2.0
"""Time between two looks."""


def abandoned(task: str | None) -> bool:
    """Whether the process of the task is gone. False if it was never known."""
    return task is not None and not lives(task)


def waiting_task() -> str | None:
    """The process that waits for this application; None if it is unknown here, as on another machine."""
    task = os.environ.get(TASK)
    return task if task is not None and lives(task) else None


@contextmanager
def ending_with_its_task(spark: SparkSession) -> Iterator[Event]:
    """While the block runs, set the event once the task's process is gone, and cancel all jobs."""
    task, stopped = waiting_task(), Event()
    if task is None:
        yield stopped
        return
    said = "the task that waited for this application has ended: the application ends, too"
    with ending_once(lambda: abandoned(task), said, spark, stopped, LOOK_SECONDS):
        yield stopped
