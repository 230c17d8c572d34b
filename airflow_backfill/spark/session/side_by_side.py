"""Runs several units of work at once, each in a thread, so that one plans while another reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

from pyspark import inheritable_thread_target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_Result = TypeVar("_Result")

CANCEL_SECONDS = 0.5
"""Time between two cancellations: a thread may start another job after its last one was cancelled."""


def side_by_side(spark: SparkSession, work: Sequence[Callable[[], _Result]], threads: int) -> list[_Result]:
    """The results, in the order of ``work``. The threads have the caller's job tags.

    If a unit fails, the jobs of the others are cancelled, no other unit starts, and its error is raised once all have
    ended.
    """
    context, tag = spark.sparkContext, f"side-by-side-{uuid4().hex}"
    context.addJobTag(tag)
    try:
        with ThreadPoolExecutor(threads) as pool:
            inheriting = inheritable_thread_target(spark)
            units = [pool.submit(inheriting(unit)) for unit in work]
            ended, _ = wait(units, return_when=FIRST_EXCEPTION)
            failed = next((unit for unit in ended if unit.exception() is not None), None)
            pool.shutdown(wait=False, cancel_futures=True)
            while rest := [unit for unit in units if not unit.done()]:
                context.cancelJobsWithTag(tag)
                wait(rest, CANCEL_SECONDS)
    finally:
        context.removeJobTag(tag)
    return [unit.result() for unit in ([failed] if failed else units)]
