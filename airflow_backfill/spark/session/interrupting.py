"""Looks at the commands beside a unit of work, and cancels its Spark jobs once one of them stops it.

What runs on the driver between two jobs goes on, and so does a commit that is being written; the next job of the same
unit is cancelled again.
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

EVERY = 2.0
"""Seconds between two looks."""


@dataclass
class Unit:
    """What is done while somebody looks."""

    stopped: str | None = None
    """By what, if it was."""


@contextmanager
def interruptible(spark: SparkSession, stopped: Callable[[], str | None], every: float | None = None) -> Iterator[Unit]:
    """For as long as the block lasts its Spark jobs are cancelled once ``stopped`` says by what. The error that this
    makes of them is the block's.
    """
    context, tag, unit, over = spark.sparkContext, f"unit-{uuid4().hex}", Unit(), Event()

    def look() -> None:
        while not over.wait(every or EVERY):
            try:
                unit.stopped = unit.stopped or stopped()
            except Exception as error:
                log.warning("the commands cannot be read, so none stops this round: %s", error)
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
