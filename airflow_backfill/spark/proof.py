"""The proof that a version of the target equals the transformed source at an epoch.

Both sides go through the transform's one code path and one canonical encoding. Nothing of the build's own progress
is believed: the source is read again, as of the epoch, whatever was appended or merged before.

Digests add up, so each side is taken in parts: some of the version's files at a time. What a part held is kept
beside the target, and an attempt that comes after a kill goes on with the parts that are left.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from airflow_backfill.core.document import fingerprint
from airflow_backfill.core.errors import RecordInvalid, VerificationFailed
from airflow_backfill.core.plan import Plan, SplitPlan
from airflow_backfill.core.record import Certificate
from airflow_backfill.ledger.control_folder import ControlFolder
from airflow_backfill.spark.digest import Digest, compare, differing_keys, digests
from airflow_backfill.spark.failure import history_lost
from airflow_backfill.spark.faults import crash_point
from airflow_backfill.spark.snapshot_files import SnapshotFiles
from airflow_backfill.spark.transform import Transform

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

BUCKETS = 256
SAMPLE = 20
PART_BYTES = 8 << 30
"""Bytes of files that are read between two points from which a verification can go on."""


@dataclass(frozen=True)
class Proof:
    """Proves a build's target equal to its source; ``control`` keeps what was found out on the way."""

    spark: SparkSession
    plan: Plan
    transform: Transform
    control: ControlFolder
    part_bytes: int = PART_BYTES

    def certificate(self, epoch: int, version: int, now: int) -> Certificate:
        """The certificate, or VerificationFailed with the keys. HistoryLost if a file of either side is gone."""
        spec, columns = self.plan.spec, self.transform.schema.fieldNames()
        wanted = self._digests("source", spec.source, epoch)
        found = self._digests("target", spec.target, version)
        unequal = compare(wanted, found)
        if unequal:
            key = self.transform.target_key(spec.key)
            expected = self.transform.apply(self._at(spec.source, epoch))
            actual = self._at(spec.target, version).select(columns)
            differences = differing_keys(expected, actual, key, unequal, BUCKETS, SAMPLE)
            counts = {kind.value: count for kind, count in differences.counts.items()}
            raise VerificationFailed(
                f"version {version} of the target is not what the source says at epoch {epoch}: {counts}, in "
                f"{len(unequal)} of {BUCKETS} buckets",
                epoch=epoch,
                target_version=version,
                counts=counts,
                sample=[{"kind": kind.value, "key": dict(values)} for kind, values in differences.sample],
            )
        rows = sum(digest.rows for digest in found.values())
        log.info("equal at epoch %d: %d rows in %d buckets", epoch, rows, BUCKETS)
        return Certificate(epoch, version, rows, _fingerprint(found), BUCKETS, now)

    def _digests(self, side: str, table: str, version: int) -> dict[int, Digest]:
        """The digests of one side, part by part."""
        files = SnapshotFiles(self.spark, table, version)
        sizes = [file.size for file in files.files]
        borders = SplitPlan.cut(sizes, max(1, -(-sum(sizes) // self.part_bytes)))
        whole: dict[int, Digest] = {}
        for n, (start, stop) in enumerate(pairwise(borders)):
            names = SplitPlan.digest_of((file.path, file.size) for file in files.files[start:stop])
            name = fingerprint([self.plan.fingerprint, side, version, names, BUCKETS])
            stored = self.control.part(name)
            if stored is None:
                log.info("%s at version %d: part %d of %d", side, version, n + 1, len(borders) - 1)
                part = self._digests_of(side, files, range(start, stop))
                self.control.store_part(name, {str(b): [d.rows, f"{d.total:032x}"] for b, d in part.items()})
                crash_point("after_part")
            else:
                part = _parsed(stored)
            whole = {b: whole.get(b, Digest(0, 0)) + part.get(b, Digest(0, 0)) for b in whole.keys() | part.keys()}
        return whole

    def _digests_of(self, side: str, files: SnapshotFiles, part: range) -> dict[int, Digest]:
        key, columns = self.transform.target_key(self.plan.spec.key), self.transform.schema.fieldNames()
        rows = files.read(part)
        try:
            return digests(self.transform.apply(rows) if side == "source" else rows.select(columns), BUCKETS, key)
        except Exception as error:
            lost = history_lost(error)
            if lost is None:
                raise
            raise lost from error

    def _at(self, table: str, version: int) -> DataFrame:
        return self.spark.read.format("delta").option("versionAsOf", version).load(table)


def _parsed(stored: Mapping[str, Sequence[int | str]]) -> dict[int, Digest]:
    try:
        return {int(b): Digest(int(rows), int(str(total), 16)) for b, (rows, total) in stored.items()}
    except (AttributeError, TypeError, ValueError):
        raise RecordInvalid("a part of the proof is damaged; remove the folder proofs beside the target") from None


def _fingerprint(buckets: Mapping[int, Digest]) -> str:
    text = ";".join(f"{bucket}:{digest.rows}:{digest.total:032x}" for bucket, digest in sorted(buckets.items()))
    return hashlib.sha256(text.encode()).hexdigest()
