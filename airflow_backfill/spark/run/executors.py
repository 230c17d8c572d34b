"""Ends an application whose standalone cluster has forgotten it.

A master that starts again without recovery mode knows no application: it ends their executors, and gives no others.
Spark's driver waits for ever then. YARN and Kubernetes are asked for executors again, so nothing is judged there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from typing import TYPE_CHECKING

from airflow_backfill.spark.run.watchdog import ending_once

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE_SECONDS = 300.0
"""How long a job waits without any executor. A worker that comes back has so long."""
LOOK_SECONDS = 5.0
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


def executors_of(spark: SparkSession) -> Executors | None:
    """Those of this application; None if its cluster asks for no judgement."""
    context = spark.sparkContext
    if not str(context.master).startswith("spark://"):
        return None
    tracker = context._jsc.sc().statusTracker()
    # The driver is one of them.
    return Executors(lambda: (len(tracker.getExecutorInfos()) - 1, len(tracker.getActiveJobIds())))


@contextmanager
def ending_without_executors(spark: SparkSession, stopped: Event) -> Iterator[None]:
    """While the block runs, set the event once the executors are gone for good, and cancel all jobs."""
    executors = executors_of(spark)
    if executors is None:
        yield
        return
    said = (
        f"a job has waited for {PATIENCE_SECONDS:g} seconds without any executor: the application ends, and the next "
        "one asks the master anew"
    )
    with ending_once(executors.gone_for_good, said, spark, stopped, LOOK_SECONDS):
        yield
