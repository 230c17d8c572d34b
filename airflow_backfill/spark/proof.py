"""The proof that a version of the target equals the transformed source at an epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_backfill.core.errors import VerificationFailed
from airflow_backfill.core.plan import Plan
from airflow_backfill.core.record import Certificate
from airflow_backfill.spark.transform import Transform

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def prove_equal(
    spark: SparkSession, plan: Plan, transform: Transform, epoch: int, version: int, now: int
) -> Certificate:
    """A certificate, or VerificationFailed. An error of the comparison is raised as it is."""
    source = spark.read.format("delta").option("versionAsOf", epoch).load(plan.spec.source)
    expected = transform.apply(source)
    actual = spark.read.format("delta").option("versionAsOf", version).load(plan.spec.target).select(expected.columns)
    missing, extra = expected.exceptAll(actual).count(), actual.exceptAll(expected).count()
    if missing or extra:
        raise VerificationFailed(f"{missing} rows are missing, {extra} are extra at epoch {epoch}", epoch=epoch)
    return Certificate(epoch, version, actual.count(), "except-all", 1, now)
