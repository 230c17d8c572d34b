"""Units of work that run at once: their results, and what is left of them when one fails."""

from __future__ import annotations

import threading
import time

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from airflow_backfill.spark.session.interrupting import interruptible
from airflow_backfill.spark.session.side_by_side import side_by_side

pytestmark = pytest.mark.spark

LIMIT_SECONDS = 60


def endless(spark: SparkSession) -> int:
    """A job that ends when it is cancelled."""
    return spark.range(1 << 40).where(F.xxhash64("id") == 1).count()


def test_results_come_in_the_order_of_the_work(spark: SparkSession) -> None:
    both = threading.Barrier(2, timeout=LIMIT_SECONDS)

    def counted(rows: int) -> int:
        both.wait()
        return spark.range(rows).count()

    assert side_by_side(spark, [lambda n=n: counted(n) for n in (5, 3, 4, 2)], 2) == [5, 3, 4, 2]


def test_the_first_error_cancels_the_others_and_starts_none(spark: SparkSession) -> None:
    started: list[int] = []
    both = threading.Barrier(2, timeout=LIMIT_SECONDS)

    def lasting() -> int:
        both.wait()
        return endless(spark)

    def failing() -> int:
        both.wait()
        raise ArithmeticError("the first")

    begun = time.monotonic()
    with pytest.raises(ArithmeticError, match="the first"):
        side_by_side(spark, [lasting, failing, lambda: started.append(3) or 3], 2)
    assert time.monotonic() - begun < LIMIT_SECONDS
    assert spark.sparkContext.statusTracker().getActiveJobsIds() == []


def test_a_command_that_stops_the_caller_stops_the_threads(spark: SparkSession) -> None:
    with (
        pytest.raises(Exception, match="cancelled"),
        interruptible(spark, lambda: "pause", check_seconds=0.2) as unit,
    ):
        side_by_side(spark, [lambda: endless(spark), lambda: endless(spark)], 2)
    assert unit.stopped == "pause"
