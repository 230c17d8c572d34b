"""The changes of an epoch that is larger than a round, counted once by key bucket, and read once if that is worth it.

Such an epoch is applied in rounds with the keys of one bucket each, and the source has no files of a bucket: each round
would read and count all changes. If the rounds are many, the changes are stored by bucket beside the target. The copy
is counted like the source; the counts are compared with the source's log, and each round with its own. Nothing depends
on the copy: if it is missing, damaged or incomplete, the rounds read the source.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_backfill.core.errors import ChangesIncomplete
from airflow_backfill.core.values.document import fingerprint
from airflow_backfill.spark.session.failure import coded
from airflow_backfill.spark.session.hadoop_path import hadoop_path
from airflow_backfill.spark.source.changes import CHANGE_TYPE, EPOCH, Changes
from airflow_backfill.spark.target_table.buckets import Buckets
from airflow_backfill.spark.transform.transform import OWN, quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

WORTH_BYTES = 256 << 20
WORTH_ROUNDS = 8
"""Of fewer bytes, and in fewer rounds than this, reading again costs less than storing."""
_BUCKET = OWN + "bucket"
Counts = Mapping[tuple[int, str], int]
"""Numbers of rows by epoch and type of change."""


@dataclass(frozen=True)
class Bucketed:
    """The changes of one bucket, their numbers of rows, and those of all buckets."""

    rows: DataFrame
    own: Counts
    whole: Counts
    discard: Callable[[object], None]
    """Do not use such rows any more, and say why."""


class SplitEpochs:
    """The changes of one build's large epochs, stored below ``location``. ``of``: what identifies its plan."""

    def __init__(self, spark: SparkSession, location: str, of: str) -> None:
        self._spark, self._location, self._of = spark, location, of
        self._counts: dict[str, Mapping[int, Counts]] = {}
        self._failed = self._cleaned = False

    def bucket(self, rows: DataFrame, changes: Changes, key: Sequence[str], buckets: Buckets) -> Bucketed | None:
        """One bucket of ``rows``, which are made from ``changes`` and have the columns ``key``. The first call counts
        all buckets, and stores them if that is worth it. None if it failed.
        """
        if self._failed:
            return None
        name = fingerprint([self._of, changes.identity(), list(changes.how), buckets.of, rows.schema.json()])

        def discard(why: object) -> None:
            self._failed = True
            log.warning("each round of the epoch reads and counts all of its changes: %s", why)
            self.clean()

        try:
            numbered = rows.withColumn(_BUCKET, buckets.placed(key))
            if changes.bytes >= WORTH_BYTES and buckets.of >= WORTH_ROUNDS:
                numbered = self._stored(f"{self._location}/{name}", numbered, key, buckets.of)
            if name not in self._counts:
                self._counts[name] = _counted(numbered)
            counts = self._counts[name]
            whole = Counter[tuple[int, str]]()
            for of_bucket in counts.values():
                whole.update(of_bucket)
            if changes.prove(whole):
                raise ChangesIncomplete("the rows are not those that the log states")
            chosen = numbered.where(F.col(_BUCKET) == buckets.start).drop(_BUCKET)
        except Exception as error:
            discard(coded(error))
            return None
        return Bucketed(chosen, counts.get(buckets.start, {}), whole, discard)

    def clean(self) -> None:
        """Remove all that is stored, by earlier attempts too. Costs nothing if it was called before."""
        self._counts.clear()
        if not self._cleaned:
            path, files = hadoop_path(self._spark, self._location)
            files.delete(path, True)
            self._cleaned = True

    def _stored(self, place: str, rows: DataFrame, key: Sequence[str], of: int) -> DataFrame:
        """The rows, from the copy at ``place``. Makes it, unless an earlier attempt has."""
        self._cleaned = False
        stored, files = hadoop_path(self._spark, f"{place}/_delta_log")
        if not files.exists(stored):
            log.info("the changes are stored by key bucket, so that %d rounds read them once", of)
            parts = -(-int(self._spark.conf.get("spark.sql.shuffle.partitions") or 1) // of)
            file = F.pmod(F.hash(*(F.col(quoted(k)) for k in key)), F.lit(parts))
            # The names of the target's columns may need column mapping.
            named = rows.repartition(parts * of, _BUCKET, file).toDF(*(f"c{n}" for n in range(len(rows.columns))))
            writer = named.write.format("delta").partitionBy(named.columns[-1])
            writer.option("delta.dataSkippingNumIndexedCols", "0").save(place)
        return self._spark.read.format("delta").load(place).toDF(*rows.columns)


def _counted(rows: DataFrame) -> Mapping[int, Counts]:
    """The numbers of rows of each bucket."""
    found: dict[int, dict[tuple[int, str], int]] = {}
    for row in rows.groupBy(_BUCKET, EPOCH, CHANGE_TYPE).count().collect():
        found.setdefault(row[_BUCKET], {})[row[EPOCH], row[CHANGE_TYPE]] = row["count"]
    return found
