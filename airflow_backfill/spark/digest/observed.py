"""The digest of rows while something else reads them, for example a write.

Spark counts a metric in the task that ends a job once for each partition, however often the task runs. So the rows must
reach the write without a shuffle.
"""

from __future__ import annotations

from dataclasses import dataclass

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from airflow_backfill.core.values.digest import Digest
from airflow_backfill.core.values.row_hash import RowHash
from airflow_backfill.spark.digest.digest import HASHES, LIMBS, digest_of, digested, limbs, sums

WAIT_SECONDS = 10
"""Spark reports metrics soon after the job that they belong to."""


@dataclass(frozen=True, slots=True)
class ObservedRows:
    """Rows whose digest is known after they were read."""

    rows: DataFrame
    _seen: Observation

    @staticmethod
    def of(rows: DataFrame, by: RowHash = RowHash.TYPED) -> ObservedRows:
        """These rows, to be read once."""
        seen = Observation()
        # Spark interprets the expressions of a metric, so all but the sums is computed before.
        numbers = digested(rows, rows.schema, by).withColumns(dict(zip(LIMBS, limbs(), strict=True)))
        return ObservedRows(numbers.observe(seen, *sums([F.col(name) for name in LIMBS])).drop(*HASHES, *LIMBS), seen)

    def digest(self) -> Digest | None:
        """Their digest; None if no job has read all of them, or if Spark lost the metric."""
        jvm = self.rows.sparkSession._jvm
        seconds = jvm.scala.concurrent.duration.Duration.create(WAIT_SECONDS, "seconds")
        try:
            jvm.scala.concurrent.Await.ready(self._seen._jo.future(), seconds)
        except Py4JJavaError:
            return None
        return digest_of(self._seen.get)
