"""A thread that looks for a reason to end the application, such as a killed task, and then cancels all its jobs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)


@contextmanager
def ending_once(
    reason: Callable[[], bool], said: str, spark: SparkSession, stopped: Event, look_seconds: float
) -> Iterator[None]:
    """While the block runs, set the event once there is a reason, which is ``said`` in the log. From then on cancel all
    jobs, also those that begin later.
    """
    over = Event()

    def look() -> None:
        while not over.wait(look_seconds):
            if stopped.is_set() or reason():
                if not stopped.is_set():
                    log.error(said)
                stopped.set()
                spark.sparkContext.cancelAllJobs()

    Thread(target=look, name="watchdog", daemon=True).start()
    try:
        yield
    finally:
        over.set()
