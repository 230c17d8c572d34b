"""How fast this application copies and applies, measured on a sample of the source.

On a local master the sample is copied and merged into a table in a temporary folder, as a build would. On a cluster it
is only read and transformed, because executors share no temporary folder; writing is assumed to take as long. The
source's last epochs are read as a round of the log reads them. All of it is done three times. The first time takes
longer, because Java compiles then, as it will in the build. Of the other two the faster one counts, because a slow
moment of the machine shall not count for a whole build.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING
from uuid import uuid4

from delta.tables import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_backfill.core.reports.sample import SAMPLE_BYTES, sampled
from airflow_backfill.core.reports.speeds import MERGE_SECONDS, Speeds
from airflow_backfill.core.values.epoch import EpochRange
from airflow_backfill.spark.open_source import open_source
from airflow_backfill.spark.preflight.table import Preflight
from airflow_backfill.spark.session.settings import cluster_cores
from airflow_backfill.spark.session.staged import held
from airflow_backfill.spark.target_table import apply
from airflow_backfill.spark.target_table.net_change import NEW, OP, UPSERT, NetChanges, net_changes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ONE_COPY = 1
"""Version of the sample's table that holds the rows once."""
MANY_ROWS = 100_000
"""Changed rows that are applied at most."""
FEW_ROWS = 100
"""Changed rows that take as long as one, and are applied at least."""


def calibrated(spark: SparkSession, found: Preflight) -> Speeds:
    """Measured speeds; the usual ones if the source has no rows to measure with. Takes some tens of seconds at most,
    unless a single data file is very large.
    """
    usual = Speeds.usual(cluster_cores(spark))
    sizes = [file.size for file in found.files]
    fitting = sum(total <= SAMPLE_BYTES for total in accumulate(sizes))
    sizes = sizes[: max(fitting, 1)]
    if not sum(sizes):
        return usual
    pinned, sample = open_source(spark, found.spec.table).files(found.epoch), range(len(sizes))
    rows, evenly = found.transform.apply(pinned.read(sample)), lambda: pinned.evenly(sample)
    if not spark.sparkContext.master.startswith("local"):
        copying, reading = Work(lambda: rows.write.format("noop").mode("overwrite").save()), _Reading(spark, found)
        copy_bytes = sum(sizes) / (2 * copying.seconds)
        speeds = replace(usual, copy_bytes=copy_bytes, warm_up_seconds=copying.warm_up, measured=True)
        return reading.measured(speeds)
    with tempfile.TemporaryDirectory(prefix="table-backfill-") as path:
        return _in_a_copy(_Sample(rows, sum(sizes), evenly), path, found, usual)


class Work:
    """Work that is done once at first, and twice more when its time is asked for."""

    def __init__(self, do: Callable[[], object]) -> None:
        self._do = do
        self._first = self._timed()

    @cached_property
    def seconds(self) -> float:
        """What it takes once Java has compiled it."""
        return min(self._timed(), self._timed())

    @property
    def warm_up(self) -> float:
        """Seconds that the first time took in addition."""
        return max(self._first - self.seconds, 0.0)

    def _timed(self) -> float:
        began = time.monotonic()
        self._do()
        return time.monotonic() - began


@dataclass(frozen=True)
class _Sample:
    """Rows of the first files of the source."""

    rows: DataFrame
    bytes: int
    evenly: Callable[[], AbstractContextManager[None]]
    """In this block they are read as the snapshot reads them."""


def _in_a_copy(sample: _Sample, path: str, found: Preflight, usual: Speeds) -> Speeds:
    """The speeds with which the sample is copied to a new table at ``path``, and changes are applied there. Everything
    has its first time in the order of a build.
    """
    rows, key = sample.rows, found.target_key
    spark = rows.sparkSession
    made = DeltaTable.create(spark).location(path).addColumns(rows.schema)
    made.property("delta.enableDeletionVectors", "true").execute()

    def copy() -> None:
        with sample.evenly():
            apply.append(rows, path, _txn(), "")

    copying, reading = Work(copy), _Reading(spark, found)
    table = spark.read.format("delta").option("versionAsOf", ONE_COPY).load(path)
    count = table.count()
    with ExitStack() as until_the_end:

        def applying(share: float) -> Work:
            staged = until_the_end.enter_context(held(table.where(F.rand(7) < share)))
            staged.count()
            net = reading.like(staged)
            return Work(lambda: apply.changes(net, path, key, _txn(), "", narrowed=False))

        some_rows, many_rows = (min(rows, count) for rows in (reading.rows, MANY_ROWS))
        some = applying(some_rows / count) if key and count else None
        commit = Work(lambda: apply.empty(spark, path, _txn(), "")).seconds
        copy_bytes = sample.bytes / max(copying.seconds - commit, 0.05)
        DeltaTable.forPath(spark, path).restoreToVersion(ONE_COPY)
        speeds = replace(usual, copy_bytes=copy_bytes, commit_seconds=commit, warm_up_seconds=copying.warm_up)
        speeds = reading.measured(replace(speeds, measured=True))
        if some is None:
            return speeds
        # Of a small sample, more rows take no longer: then the usual speed is as good.
        longer, speed = applying(many_rows / count).seconds - some.seconds, usual.apply_rows
        if longer > some.seconds / 10:
            speed = min((many_rows - some_rows) / longer, 10 * speed)
        merging = max(some.seconds - some_rows / speed, 0.0)
        return replace(
            speeds,
            apply_rows=speed,
            round_seconds=speeds.round_seconds - MERGE_SECONDS + merging,
            log_warm_up_seconds=reading.warm_up + some.warm_up,
        )


class _Reading:
    """Reads the source's last epochs as a round does, those that are small enough."""

    def __init__(self, spark: SparkSession, found: Preflight) -> None:
        self._source, self._found = open_source(spark, found.spec.table), found
        self._epochs = sampled(found.recent, found.rows)
        self._net: NetChanges | None = None
        self._whole = Work(lambda: self._read(self._epochs)) if self._epochs else None

    @property
    def rows(self) -> int:
        """As many changed rows as the epochs have, within the limits of the sample."""
        return min(max(FEW_ROWS, 0 if self._net is None else self._net.changes), MANY_ROWS // 2)

    @property
    def warm_up(self) -> float:
        """Seconds that the first time took in addition."""
        return 0.0 if self._whole is None else self._whole.warm_up

    def like(self, rows: DataFrame) -> NetChanges:
        """Changes of these rows of the target, which are staged, that are applied like those of the epochs."""
        frame = rows.withColumns({OP: F.lit(UPSERT), NEW: F.lit(False)})
        if self._net is not None:
            return replace(self._net, frame=frame, upserts=1, staged=rows)
        return NetChanges(frame, 1, 0, 1, only_inserts=False, bounds={}, staged=rows, new=1)

    def measured(self, speeds: Speeds) -> Speeds:
        """The speeds with what it takes to read epochs; the same if there was none to measure with."""
        if self._whole is None:
            return speeds
        many, few = len(self._epochs), -(-len(self._epochs) // 4)
        newest = EpochRange(self._epochs.stop - few, self._epochs.stop)
        some = Work(lambda: self._read(newest)).seconds if few < many else self._whole.seconds
        each = max(self._whole.seconds - some, 0.0) / max(many - few, 1)
        return replace(speeds, epoch_seconds=each, round_seconds=speeds.round_seconds + max(some - few * each, 0.0))

    def _read(self, epochs: EpochRange) -> None:
        found, columns = self._found, self._found.transform.source_schema.fieldNames()
        changes = self._source.changes(epochs, columns, found.spec.key, feed=found.source.feed)
        if found.target_key:
            with net_changes(changes, found.transform, found.target_key) as net:
                self._net = self._net or net
        else:
            changes.counted()


def _txn() -> apply.Txn:
    return apply.Txn(str(uuid4()), 1)
