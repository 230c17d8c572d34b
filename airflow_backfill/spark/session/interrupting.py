"""Checks the commands while a unit of work runs, and cancels its Spark jobs when a command stops it.

Driver code between two jobs is not stopped, nor is a commit that is being written; the next job of the unit is
cancelled too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING
from uuid import uuid4

from pyspark import InheritableThread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

CHECK_SECONDS = 2.0
"""Time between two checks."""


@dataclass
class Unit:
    """A unit of work whose jobs can be cancelled."""

    stopped: str | None = None
    """The command that stopped it; None if none did."""


@contextmanager
def interruptible(
    spark: SparkSession, stopped: Callable[[], str | None], check_seconds: float | None = None
) -> Iterator[Unit]:
    """While the block runs, cancel its Spark jobs once ``stopped`` returns a command. The block gets Spark's error of
    a cancelled job.
    """
    context, tag, unit, over = spark.sparkContext, f"unit-{uuid4().hex}", Unit(), Event()

    def look() -> None:
        while not over.wait(check_seconds or CHECK_SECONDS):
            try:
                unit.stopped = unit.stopped or stopped()
            except Exception as error:
                log.warning("commands cannot be read, so none can stop this round; reading is retried: %s", error)
            if unit.stopped and not over.is_set():
                log.info("%s: the jobs of this round are cancelled", unit.stopped)
                context.cancelJobsWithTag(tag)

    thread = InheritableThread(target=look, name="commands", daemon=True)
    context.addJobTag(tag)
    thread.start()
    try:
        yield unit
    finally:
        over.set()
        context.removeJobTag(tag)
