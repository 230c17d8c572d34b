"""The proof that a version of the target equals the transformed source at an epoch.

Both sides go through the transform's one code path and one canonical encoding. Nothing of the build's own progress
is believed: the source is read again, as of the epoch, whatever was appended or merged before.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from airflow_backfill.core.errors import VerificationFailed
from airflow_backfill.core.plan import Plan
from airflow_backfill.core.record import Certificate
from airflow_backfill.spark.digest import Digest, compare, differing_keys, digests
from airflow_backfill.spark.transform import Transform

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

BUCKETS = 256
SAMPLE = 20


def prove_equal(
    spark: SparkSession, plan: Plan, transform: Transform, epoch: int, version: int, now: int
) -> Certificate:
    """A certificate, or VerificationFailed with the keys. An error of the comparison is raised as it is."""
    key = transform.target_key(plan.spec.key)
    expected = transform.apply(_at(spark, plan.spec.source, epoch))
    actual = _at(spark, plan.spec.target, version).select(expected.columns)
    wanted, found = digests(expected, BUCKETS, key), digests(actual, BUCKETS, key)
    unequal = compare(wanted, found)
    if unequal:
        differences = differing_keys(expected, actual, key, unequal, BUCKETS, SAMPLE)
        counts = {kind.value: count for kind, count in differences.counts.items()}
        shown = [{"kind": kind.value, "key": dict(values)} for kind, values in differences.sample]
        raise VerificationFailed(
            f"version {version} of the target is not what the source says at epoch {epoch}: {counts}, in "
            f"{len(unequal)} of {BUCKETS} buckets",
            epoch=epoch,
            target_version=version,
            counts=counts,
            sample=shown,
        )
    rows = sum(digest.rows for digest in found.values())
    log.info("equal at epoch %d: %d rows in %d buckets", epoch, rows, BUCKETS)
    return Certificate(epoch, version, rows, _fingerprint(found), BUCKETS, now)


def _at(spark: SparkSession, table: str, version: int) -> DataFrame:
    return spark.read.format("delta").option("versionAsOf", version).load(table)


def _fingerprint(buckets: Mapping[int, Digest]) -> str:
    text = ";".join(f"{bucket}:{digest.rows}:{digest.total:032x}" for bucket, digest in sorted(buckets.items()))
    return hashlib.sha256(text.encode()).hexdigest()
