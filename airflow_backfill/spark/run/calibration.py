"""How fast this application copies and applies, measured on a sample of the source.

On a local master the sample is copied and merged into a table in a temporary folder, as a build would. On a cluster it
is only read and transformed, because executors share no temporary folder; writing is assumed to take as long. The
source's last epochs are read as a round of the log reads them. What compiles first is done before it is timed; copies
and small MERGEs are timed twice, because one slow moment of the machine shall not count for a whole build.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from delta.tables import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_backfill.core.delta.epochs import has_feed
from airflow_backfill.core.reports.speeds import Speeds
from airflow_backfill.core.values.epoch import EpochRange
from airflow_backfill.spark.delta.even_tasks import even_tasks
from airflow_backfill.spark.open_source import open_source
from airflow_backfill.spark.preflight.table import Preflight
from airflow_backfill.spark.session.settings import cluster_cores
from airflow_backfill.spark.target_table import apply
from airflow_backfill.spark.target_table.net_change import net_changes
from airflow_backfill.spark.transform.transform import quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLE_BYTES = 64 << 20
"""Bytes of whole files that are read, or one file if it is larger."""
READ_EPOCHS = 32
"""Epochs that are read, if their changes are no more than the sample."""
TOUCHED_BYTES = 1 << 30
"""Bytes of the files that these epochs may touch: to find what deletion vectors remove, Spark reads in them."""
MERGED_ROWS = 100_000
FEW_ROWS = 100
"""Rows of a MERGE that takes as long as one of no rows."""


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
    usual = replace(usual, epoch_seconds=_reading(spark, found), warm_up_seconds=0.0)
    rows = found.transform.apply(open_source(spark, found.spec.table).files(found.epoch).read(range(len(sizes))))
    if not spark.sparkContext.master.startswith("local"):
        seconds = _second(lambda: rows.write.format("noop").mode("overwrite").save())
        return replace(usual, copy_bytes=sum(sizes) / (2 * seconds), measured=True)
    with tempfile.TemporaryDirectory(prefix="table-backfill-") as folder:
        return _copied(rows, sizes, found, (str(Path(folder, "first")), str(Path(folder, "second"))), usual)


def _copied(rows: DataFrame, sizes: Sequence[int], found: Preflight, places: tuple[str, str], usual: Speeds) -> Speeds:
    """``places``: of the tables that get the rows of these files. The first copy compiles and is not timed."""
    spark = rows.sparkSession

    def copy(place: str, number: int) -> None:
        with even_tasks(spark, sizes):
            apply.append(rows, place, apply.Txn("sample", number), "")

    for place in places:
        made = DeltaTable.create(spark).location(place).addColumns(rows.schema)
        made.property("delta.enableDeletionVectors", "true").execute()
    first, path = places
    copy(first, 1)
    commit = _timed(lambda: apply.empty(spark, first, apply.Txn("sample", 2), ""))
    seconds = min(_timed(lambda: copy(path, 1)), _timed(lambda: copy(first, 3)))
    speeds = replace(usual, copy_bytes=sum(sizes) / max(seconds - commit, 0.05), commit_seconds=commit, measured=True)
    if not found.target_key:
        return speeds
    table = spark.read.format("delta").load(path)
    count = table.count()
    if count == 0:
        return speeds
    small, large = (
        table.where(F.rand(7) < min(some / count, 1.0)).localCheckpoint() for some in (FEW_ROWS, MERGED_ROWS)
    )
    few = _second(lambda: _merge(small, path, found.target_key))
    many = _timed(lambda: _merge(large, path, found.target_key))
    # Not right after the first one: a slow moment may last.
    few = min(few, _timed(lambda: _merge(small, path, found.target_key)))
    changed = min(count, MERGED_ROWS)
    # Of a small sample, more rows take no longer than few: then the usual speed is as good.
    speed = changed / (many - few) if many > few * 1.1 else usual.apply_rows
    return replace(speeds, apply_rows=min(speed, 10 * usual.apply_rows), round_seconds=few)


def _reading(spark: SparkSession, found: Preflight) -> float:
    """Seconds that one of the source's last epochs takes to read; 0 if there is none that is small enough."""
    recent, changed, touched = [], 0, 0
    for epoch in reversed(found.recent[-READ_EPOCHS:]):
        changed, touched = changed + epoch.weight, touched + epoch.bytes
        if epoch.stop is not None or changed > SAMPLE_BYTES or touched > TOUCHED_BYTES:
            break
        recent.append(epoch.number)
    if not recent:
        return 0.0
    epochs, feed = EpochRange(recent[-1], recent[0] + 1), has_feed(found.metadata)
    columns, key = found.transform.source_schema.fieldNames(), found.target_key
    source = open_source(spark, found.spec.table)

    def read() -> None:
        changes = source.changes(epochs, columns, found.spec.key, feed=feed)
        if key:
            net_changes(changes, found.transform, key).release()
        else:
            changes.counted()

    return _second(read) / len(epochs)


def _merge(changed: DataFrame, path: str, key: tuple[str, ...]) -> None:
    """Update rows with themselves, as a round does with the changes that it has read."""
    on = " AND ".join(f"t.{quoted(name)} <=> s.{quoted(name)}" for name in key)
    merge = DeltaTable.forPath(changed.sparkSession, path).alias("t").merge(F.broadcast(changed).alias("s"), on)
    merge.whenMatchedUpdateAll().execute()


def _second(work: Callable[[], object]) -> float:
    """Seconds of the second time."""
    work()
    return _timed(work)


def _timed(work: Callable[[], object]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began
