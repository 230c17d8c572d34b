"""The proof that a version of the target equals the transformed source at an epoch.

The proof does not rely on the build's progress: it reads the source again at the epoch, and uses the same transform and
the same hash of a row for both sides.

Digests can be added, so each side is read in parts of some files each. The digests of a part are stored beside the
target under a hash of its files and deletion vectors. After a kill the next attempt goes on with the missing parts,
although its claim is a new version of the target.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from airflow_backfill.core.errors import HistoryLost, RecordInvalid, VerificationFailed
from airflow_backfill.core.model.certificate import Certificate
from airflow_backfill.core.model.plan import Plan
from airflow_backfill.core.splits.files import FileSplits
from airflow_backfill.core.values.document import fingerprint
from airflow_backfill.core.values.row_hash import RowHash
from airflow_backfill.ledger.control_folder import ControlFolder
from airflow_backfill.spark.open_source import open_source
from airflow_backfill.spark.session.failure import lost_history_named
from airflow_backfill.spark.session.faults import crash_point
from airflow_backfill.spark.session.staged import held
from airflow_backfill.spark.source.source import VersionFiles
from airflow_backfill.spark.transform.transform import Transform, quoted
from airflow_backfill.spark.verify.digest import (
    KIND,
    Differences,
    Digest,
    Kind,
    compare,
    differences,
    differing_keys,
    digests,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

BUCKETS = 256
SAMPLE = 20
PART_BYTES = 8 << 30
"""Bytes of files in a part: after a kill, at most this much is read again."""


@dataclass(frozen=True)
class Proof:
    """Proves that a build's target equals its source. ``control`` stores the digests of parts."""

    spark: SparkSession
    plan: Plan
    transform: Transform
    control: ControlFolder
    row_hash: RowHash = RowHash.TYPED
    part_bytes: int = PART_BYTES
    history: Callable[[int], DataFrame] | None = None
    """The expected rows at an epoch, if they are not those of one version of the source."""

    def certificate(self, epoch: int, version: int, now: int) -> Certificate:
        """The certificate. VerificationFailed with keys if rows differ; HistoryLost if a file of a side is gone.

        ``now``: milliseconds since 1970.
        """
        wanted, found = self._sides(epoch, version)
        unequal = compare(wanted, found)
        if unequal:
            with self.differing_keys(epoch, version, unequal) as keys:
                raise self._failed(epoch, version, differences(keys, self.key, SAMPLE))
        rows = _rows(found)
        log.info("equal at epoch %d: %d rows in %d buckets", epoch, rows, BUCKETS)
        return Certificate(epoch, version, rows, _fingerprint(found), BUCKETS, now, self.row_hash)

    def certificate_of_part(
        self, epoch: int, version: int, now: int, gone: int, *, rows: int | None, deleted: DataFrame | None
    ) -> Certificate:
        """The certificate of a source that has lost ``gone`` records. Proves that the target has every row that the
        source still gives, no key in ``deleted``, and as many ``rows`` as were written (None: unknown).
        """
        wanted, found = self._sides(epoch, version)
        with self.differing_keys(epoch, version, compare(wanted, found)) as keys:
            wrong = keys.where(F.col(KIND) != Kind.EXTRA.value)
            if deleted is not None:
                extra = keys.where(F.col(KIND) == Kind.EXTRA.value)
                wrong = wrong.unionByName(extra.join(deleted, list(self.key or ()), "left_semi"))
            differing = differences(wrong, self.key, SAMPLE)
        if differing.counts:
            raise self._failed(epoch, version, differing)
        have = _rows(found)
        if rows is not None and rows != have:
            raise VerificationFailed(
                f"version {version} of the target has {have} rows, but {rows} were written to it: rows are missing or "
                "doubled; plan again with on_existing='restart'",
                epoch=epoch,
                target_version=version,
                rows=have,
                written=rows,
            )
        log.warning("equal at epoch %d: %d rows; %d records are gone and cannot be compared", epoch, have, gone)
        return Certificate(epoch, version, have, _fingerprint(found), BUCKETS, now, self.row_hash, gone)

    def _failed(self, epoch: int, version: int, differing: Differences) -> VerificationFailed:
        counts = {kind.value: count for kind, count in differing.counts.items()}
        return VerificationFailed(
            f"version {version} of the target differs from the transformed source at epoch {epoch}: {counts}; "
            + (
                f"run `table-backfill repair {self.plan.spec.target}`, which rewrites these keys, then clear verify"
                if self.key
                else "plan again with on_existing='restart'"
            ),
            epoch=epoch,
            target_version=version,
            counts=counts,
            sample=[{"kind": kind.value, "key": dict(values)} for kind, values in differing.sample],
        )

    def unequal(self, epoch: int, version: int) -> list[int]:
        """The buckets in which the two sides differ."""
        return compare(*self._sides(epoch, version))

    @contextmanager
    def differing_keys(self, epoch: int, version: int, unequal: Sequence[int]) -> Iterator[DataFrame]:
        """The keys in the ``unequal`` buckets that differ, each with its ``Kind``. Valid in the block."""
        actual = open_source(self.spark, self.plan.spec.target).at(version).select(self._columns)
        with (
            lost_history_named(),
            held(differing_keys(self.expected(epoch), actual, self.key, self.row_hash, unequal, BUCKETS)) as keys,
        ):
            yield keys

    def expected(self, epoch: int) -> DataFrame:
        """The rows that the target must hold at ``epoch``."""
        if self.history is not None:
            return self.history(epoch)
        return self.transform.apply(open_source(self.spark, self.plan.spec.table).at(epoch))

    @property
    def key(self) -> Sequence[str] | None:
        return self.transform.target_key(self.plan.spec.key) or None

    @property
    def _columns(self) -> list[Column]:
        return [F.col(quoted(name)) for name in self.transform.schema.fieldNames()]

    def _sides(self, epoch: int, version: int) -> tuple[dict[int, Digest], dict[int, Digest]]:
        """The digests of the transformed source, and those of the target."""
        found = self._digests("target", self.plan.spec.target, version)
        if self.history is None:
            with self._newer_named(epoch), lost_history_named():
                return self._digests("source", self.plan.spec.table, epoch), found
        with lost_history_named():
            return digests(self.history(epoch), BUCKETS, self.key, self.row_hash), found

    @contextmanager
    def _newer_named(self, epoch: int) -> Iterator[None]:
        """Add to HistoryLost of the source how to prove a newer epoch."""
        try:
            yield
        except HistoryLost as lost:
            target = self.plan.spec.target
            way = f"run `table-backfill recover {target} --epoch N`, clear verify, and repair the keys that differ"
            if not self.key:
                way = f"run `table-backfill cancel {target}`, plan again and clear the tasks: applied rows stay"
            raise HistoryLost(
                f"epoch {epoch} of the source is incomplete, so the target cannot be compared with it: {lost.message}. "
                f"To prove a newer one, {way}",
                **{**lost.data, "epoch": epoch},
            ) from lost

    def _digests(self, side: str, table: str, version: int) -> dict[int, Digest]:
        """The digests of one side, added up over its parts."""
        files = open_source(self.spark, table).files(version)
        sizes = [file.size for file in files.files]
        borders = FileSplits.cut(sizes, max(1, -(-sum(sizes) // self.part_bytes)))
        whole: dict[int, Digest] = {}
        for n, (start, stop) in enumerate(pairwise(borders)):
            content = [[file.path, file.size, file.deleted] for file in files.files[start:stop]]
            name = fingerprint([self.plan.fingerprint, side, content, BUCKETS, self.row_hash.value])
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

    def _digests_of(self, side: str, files: VersionFiles, part: range) -> dict[int, Digest]:
        rows = files.read(part)
        with lost_history_named():
            comparable = self.transform.apply(rows) if side == "source" else rows.select(self._columns)
            return digests(comparable, BUCKETS, self.key, self.row_hash)


def _rows(buckets: Mapping[int, Digest]) -> int:
    return sum(digest.rows for digest in buckets.values())


def _parsed(stored: Mapping[str, Sequence[int | str]]) -> dict[int, Digest]:
    try:
        return {int(b): Digest(int(rows), int(str(total), 16)) for b, (rows, total) in stored.items()}
    except (AttributeError, TypeError, ValueError):
        raise RecordInvalid(
            "a stored part of the proof is damaged, so the proof cannot go on from it; remove the folder "
            "<target>.backfill/proofs, then clear the task"
        ) from None


def _fingerprint(buckets: Mapping[int, Digest]) -> str:
    text = ";".join(f"{bucket}:{digest.rows}:{digest.total:032x}" for bucket, digest in sorted(buckets.items()))
    return hashlib.sha256(text.encode()).hexdigest()
