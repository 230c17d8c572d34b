"""The data files of one pinned version in a fixed order, and the rows of some of them.

A round of the snapshot reads only its own files. Delta does not prune by a filter on the file's path and would read the
whole table in every round, so the files themselves are handed to Delta (see ``delta_internals``).
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_backfill.spark.delta.even_tasks import even_tasks
from airflow_backfill.spark.delta_internals import DeltaVersion, forget
from airflow_backfill.spark.source.source import DataFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LIVE_ROWS = "cast(get_json_object(stats, '$.numRecords') as bigint) - coalesce(deletionVector.cardinality, 0)"
"""The number of a file's live rows, from its file action; null if it was not counted."""
VECTOR = (
    "if(deletionVector IS NULL, NULL, concat_ws(':', cast(deletionVector.storageType AS string), "
    "cast(deletionVector.pathOrInlineDv AS string), cast(deletionVector.`offset` AS string)))"
)
"""The identity of a file's deletion vector, from its file action; null if it has none."""


class SnapshotFiles:
    """The files of ``path`` at ``version``, sorted by path: every attempt has the same indices."""

    def __init__(self, spark: SparkSession, path: str, version: int) -> None:
        self._spark = spark
        forget(spark, path)
        self._table = DeltaVersion(spark, path, version)

    @cached_property
    def files(self) -> list[DataFile]:
        """The files, sorted by path."""
        slim = self._table.frame_of(self._handles).selectExpr("path", "size", LIVE_ROWS, VECTOR)
        return [DataFile(*file) for file in slim.collect()]

    def read(self, *ranges: range) -> DataFrame:
        """The rows of exactly the files with these indices, at exactly this version."""
        chosen = self._spark.sparkContext._jvm.java.util.ArrayList()
        for indices in ranges:
            chosen.addAll(self._handles.subList(indices.start, indices.stop))
        return self._table.read(chosen)

    def evenly(self, *ranges: range) -> AbstractContextManager[None]:
        return even_tasks(self._spark, [self.files[n].size for indices in ranges for n in indices])

    @cached_property
    def _handles(self) -> Any:
        """Delta's file actions, kept in the JVM. Of the statistics only the number of rows: they take most of the
        memory. One task sorts: a sort by several tasks would first run a job to find their borders.
        """
        rows = F.concat(F.lit('{"numRecords":'), F.get_json_object("stats", "$.numRecords"), F.lit("}"))
        bare = self._table.files.withColumn("stats", rows).repartition(1).sortWithinPartitions("path")
        return self._table.collect_files(bare._jdf)
