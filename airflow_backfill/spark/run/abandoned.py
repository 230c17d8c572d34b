"""Ends an application that nobody waits for any longer, although no newer attempt has begun.

Where spark-submit runs the driver on the worker's machine, the driver knows the process of the task. If that was
killed, nobody tells spark-submit, and nobody can rejoin the application: it would hold its memory for hours.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING

from airflow_backfill.ledger.process import TASK, lives

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

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
    task, stopped, over = waiting_task(), Event(), Event()

    def look() -> None:
        while not over.wait(LOOK_SECONDS):
            if stopped.is_set() or abandoned(task):
                if not stopped.is_set():
                    log.error("the task that waited for this application has ended: the application ends, too")
                stopped.set()
                spark.sparkContext.cancelAllJobs()

    if task is not None:
        Thread(target=look, name="task", daemon=True).start()
    try:
        yield stopped
    finally:
        over.set()
