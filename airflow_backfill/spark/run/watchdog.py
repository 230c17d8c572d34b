"""Ends an application that nobody waits for any longer, or that its standalone cluster has forgotten.

Where spark-submit runs the driver on the worker's machine, the driver knows the process of the task. If that was
killed, nobody tells spark-submit, and nobody can rejoin the application: it would hold its memory for hours.

A master that starts again without recovery mode knows no application: it ends their executors, and gives no others.
Spark's driver waits for ever then. YARN and Kubernetes are asked for executors again, so nothing is judged there.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING

from airflow_backfill.ledger.process import TASK, lives

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

PATIENCE_SECONDS = 300.0
"""How long a job waits without any executor. A worker that comes back has so long."""
LOOK_SECONDS = 2.0
"""Time between two looks."""


class Executors:
    """The executors of an application, looked at now and then. ``count``: their number now, and that of its jobs."""

    def __init__(self, count: Callable[[], tuple[int, int]], clock: Callable[[], float] = time.monotonic) -> None:
        self._count, self._clock = count, clock
        self._had = False
        self._since: float | None = None

    def gone_for_good(self) -> bool:
        """Whether a job has waited for long without any executor, and there were some before."""
        executors, jobs = self._count()
        self._had = self._had or executors > 0
        if executors or not jobs or not self._had:
            self._since = None
            return False
        now = self._clock()
        self._since = now if self._since is None else self._since
        return now - self._since >= PATIENCE_SECONDS


def watchdog(spark: SparkSession) -> Callable[[str], str | None]:
    """Asked now and then, with a word for the application, this says why it has to end; None while it goes on."""
    task, context = os.environ.get(TASK), spark.sparkContext
    known = task is not None and lives(task)  # else it is on another machine
    tracker = context._jsc.sc().statusTracker()
    standalone = str(context.master).startswith("spark://")
    # The driver is one of them.
    executors = Executors(lambda: (len(tracker.getExecutorInfos()) - 1, len(tracker.getActiveJobIds())))

    def reason(application: str) -> str | None:
        if known and task is not None and not lives(task):
            return f"the task that waited for this {application} has ended: the {application} ends, too"
        if standalone and executors.gone_for_good():
            return (
                f"a job has waited for {PATIENCE_SECONDS:g} seconds without any executor: the {application} ends, and "
                "the next one asks the master anew"
            )
        return None

    return reason


@contextmanager
def watched(spark: SparkSession) -> Iterator[Event]:
    """While the block runs, set the event once the application has to end. From then on cancel all jobs, also those
    that begin later.
    """
    stopped, over, reason = Event(), Event(), watchdog(spark)

    def look() -> None:
        while not over.wait(LOOK_SECONDS):
            if not stopped.is_set() and (why := reason("application")) is not None:
                log.error(why)
                stopped.set()
            if stopped.is_set():
                spark.sparkContext.cancelAllJobs()

    Thread(target=look, name="watchdog", daemon=True).start()
    try:
        yield stopped
    finally:
        over.set()
