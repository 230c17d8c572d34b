"""What an application has cost so far, as Spark and Hadoop count it."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from airflow_backfill.ledger.hadoop_store import driver_requests
from airflow_backfill.spark.session.stages import stages

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RUNNING = ("PENDING", "ACTIVE")


class Costs:
    """The costs of one application, which has Spark to itself. To be asked again and again: Spark forgets stages."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._store = spark.sparkContext._jsc.sc().statusStore()
        self._lock = Lock()
        self._written = 0
        """By stages that have ended, up to the one before ``_next``."""
        self._next = 0

    def so_far(self) -> dict[str, float]:
        """``core_seconds``: the time of all tasks together. ``read_bytes``: of tables and topics. ``written_bytes``:
        into tables. ``shuffled_bytes``: what tasks have written for each other. ``driver_requests``: to object stores.
        Times, reads and shuffles are of all executors that Spark still knows (the last hundred that ended), writes of
        all stages, if it is asked before a thousand of them have passed.
        """
        executors = self._store.executorList(False)
        known = [executors.apply(number) for number in range(executors.size())]
        return {
            "core_seconds": sum(one.totalDuration() for one in known) / 1000,
            "read_bytes": sum(one.totalInputBytes() for one in known),
            "written_bytes": self._written_bytes(),
            "shuffled_bytes": sum(one.totalShuffleWrite() for one in known),
            "driver_requests": driver_requests(),
        }

    def _written_bytes(self) -> int:
        with self._lock:
            found = self._new_stages()
            open_ = [number for number, running, _ in found if running]
            ends = min(open_) if open_ else max((number + 1 for number, _, _ in found), default=self._next)
            self._written += sum(written for number, _, written in found if number < ends)
            self._next = ends
            return self._written + sum(written for number, _, written in found if number >= ends)

    def _new_stages(self) -> list[tuple[int, bool, int]]:
        """Number of each stage from ``_next`` on, whether it runs or will run, and the bytes that it has written."""
        found = []
        for stage in stages(self._spark):
            if (number := stage.stageId()) < self._next:
                break
            found.append((number, str(stage.status()) in _RUNNING, stage.outputBytes()))
        return found
