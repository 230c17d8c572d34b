"""What an application has cost so far, as Spark and Hadoop count it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_backfill.ledger.hadoop_store import driver_requests
from airflow_backfill.spark.session.queries import queries
from airflow_backfill.spark.session.stages import stages

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RUNNING = ("PENDING", "ACTIVE")
_OPENED = r"SQLPlanMetric\(size of files read,(\d+),size\)"
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


class Costs:
    """The costs of one application, which has Spark to itself. To be asked again and again: Spark forgets."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._store = spark.sparkContext._jsc.sc().statusStore()
        java: Any = spark._jvm
        self._pattern, self._text = java.java.util.regex.Pattern.compile(_OPENED), java.java.lang.StringBuilder
        self._sizes = dict[int, int]()
        """By query that has ended: what it opened."""
        self._read, self._written = _Sum(self._queries), _Sum(self._stages)

    def so_far(self) -> dict[str, float]:
        """``core_seconds``: the time of all tasks together. ``read_bytes``: the size of the files that queries have
        opened, to 3 %; Spark's own count misses what Parquet reads in threads of its own, which is nearly all.
        ``written_bytes``: into tables. ``shuffled_bytes``: what tasks have written for each other.
        ``driver_requests``: to object stores. Times and shuffles are of all executors that Spark still knows (the last
        hundred that ended), reads and writes of all queries and stages, if it is asked before a thousand of them have
        passed.
        """
        executors = self._store.executorList(False)
        known = [executors.apply(number) for number in range(executors.size())]
        return {
            "core_seconds": sum(one.totalDuration() for one in known) / 1000,
            "read_bytes": self._read.so_far(),
            "written_bytes": self._written.so_far(),
            "shuffled_bytes": sum(one.totalShuffleWrite() for one in known),
            "driver_requests": driver_requests(),
        }

    def _queries(self, first: int) -> Iterator[_Part]:
        self._sizes = {number: size for number, size in self._sizes.items() if number >= first}
        for number, query in queries(self._spark, first, without=self._sizes):
            if query.metricValues() is None:  # until a while after its end
                yield _Part(number, runs=True, bytes=0)
            else:
                self._sizes[number] = self._opened(query)
        for number, size in self._sizes.items():
            yield _Part(number, runs=False, bytes=size)

    def _opened(self, query: Any) -> int:
        """The size of the files that a query has opened.

        Java searches its metrics: a long answer to Python waits 40 milliseconds for a delayed acknowledgement.
        """
        listed = self._pattern.matcher(self._text().append(query.metrics()))
        metrics = set[str]()  # a metric is listed again each time that its query was planned anew
        while listed.find():
            metrics.add(listed.group(1))
        return _size(metrics, query)

    def _stages(self, first: int) -> Iterator[_Part]:
        for stage in stages(self._spark):
            if stage.stageId() < first:
                return
            yield _Part(stage.stageId(), str(stage.status()) in _RUNNING, stage.outputBytes())


class _Part(NamedTuple):
    number: int
    runs: bool
    """Whether it runs or will run."""
    bytes: int


class _Sum:
    """The bytes of numbered parts, of which Spark forgets the oldest. ``parts``: those from a number on."""

    def __init__(self, parts: Callable[[int], Iterator[_Part]]) -> None:
        self._parts, self._lock = parts, Lock()
        self._ended = 0
        """By parts that have ended, up to the one before ``_next``."""
        self._next = 0

    def so_far(self) -> int:
        with self._lock:
            found = list(self._parts(self._next))
            open_ = [part.number for part in found if part.runs]
            ends = min(open_) if open_ else max((part.number + 1 for part in found), default=self._next)
            self._ended += sum(part.bytes for part in found if part.number < ends)
            self._next = ends
            return self._ended + sum(part.bytes for part in found if part.number >= ends)


def _size(metrics: set[str], query: Any) -> int:
    """The bytes in these metrics of a query, by the text that Spark makes of its numbers for people."""
    values = str(query.metricValues()) if metrics else ""
    sizes = (re.search(rf"\b{metric} -> (?:total[^\n]*\n)?([\d.]+) (\w+)", values) for metric in metrics)
    return sum(round(float(size[1]) * float(1024 ** _UNITS.index(size[2]))) for size in sizes if size)
