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
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, zip_longest
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from airflow_backfill.core.errors import HistoryLost, RecordInvalid, VerificationFailed
from airflow_backfill.core.model.certificate import Certificate
from airflow_backfill.core.model.plan import Plan
from airflow_backfill.core.splits.files import FileSplits
from airflow_backfill.core.values.differing import how_many_differ
from airflow_backfill.core.values.digest import NONE, Digest, added
from airflow_backfill.core.values.document import fingerprint
from airflow_backfill.core.values.proof_kind import ProofKind
from airflow_backfill.core.values.row_hash import RowHash
from airflow_backfill.ledger.control_folder import ControlFolder
from airflow_backfill.spark.digest.digest import digests
from airflow_backfill.spark.open_source import open_source
from airflow_backfill.spark.session.failure import lost_history_named
from airflow_backfill.spark.session.faults import crash_point
from airflow_backfill.spark.session.lost_file import unreadable_file
from airflow_backfill.spark.session.side_by_side import side_by_side
from airflow_backfill.spark.session.staged import held
from airflow_backfill.spark.session.temporary_settings import settings_for
from airflow_backfill.spark.source.key_order import KeyOrder
from airflow_backfill.spark.source.source import VersionFiles
from airflow_backfill.spark.transform.transform import Transform, quoted
from airflow_backfill.spark.verify.differences import (
    KIND,
    Differences,
    Kind,
    compare,
    differences,
    differing_keys,
)
from airflow_backfill.spark.verify.sample import chosen_ranges, hashed, narrow, within

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

BUCKETS = 256
SAMPLE = 20
PART_BYTES = 8 << 30
"""Bytes of files in a part: after a kill, at most this much of each running part is read again."""
OPEN_BYTES = 256 << 10
"""What opening a file counts when Spark cuts tasks of equal bytes. With Spark's 4 MiB, a few small files count as much
as a large one, which is then not cut.
"""
PART_TASKS = 64
"""Tasks that Spark makes of a part: of 128 MiB each."""


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
        return self._equal(epoch, version, now, found, ProofKind.FULL)

    def incremental(self, epoch: int, version: int, now: int, wanted: Digest) -> Certificate | None:
        """The certificate; None if the target's digest is not the ``wanted`` one of the transformed source."""
        (found,) = self._digests([_Side("target", self.plan.spec.target, version)])
        if sum(found.values(), NONE) != wanted:
            return None
        return self._equal(epoch, version, now, found, ProofKind.INCREMENTAL)

    def sampled(self, epoch: int, version: int, now: int, share: float) -> Certificate | None:
        """The certificate of a sample of both sides, chosen anew for each version; None if they differ.

        Compares the rows with some of the keys, and the numbers of all rows if both logs have them and no row is
        filtered.
        """
        with self._reading(epoch):
            found = self._sample(epoch, version, share)
        return self._equal(epoch, version, now, found, ProofKind.SAMPLED) if found is not None else None

    def _sample(self, epoch: int, version: int, share: float) -> dict[int, Digest] | None:
        """The digests of a sample of both sides; None if they differ."""
        source, target = open_source(self.spark, self.plan.spec.table), open_source(self.spark, self.plan.spec.target)
        sides = source.files(epoch), target.files(version)
        counts = [[file.rows for file in side.files] for side in sides]
        counted = self.transform.where is None and not any(None in some for some in counts)
        if counted and sum(counts[0]) != sum(counts[1]):  # type: ignore[arg-type]
            return None
        chance = random.Random(version)
        orders = [KeyOrder.of(self.transform.source_schema, self.plan.spec.key[:1])]
        orders += [KeyOrder.of(self.transform.schema, (self.key or ())[:1])]
        tables = (source.key_files(epoch, orders[0]), target.key_files(version, orders[1]))
        of_each = [chosen_ranges(files, share, chance) for files in tables]
        ranges = [one for side in of_each for one in side]
        if all(of_each) and all(narrow(files, ranges) for files in tables):
            log.info("comparing %d ranges of %s", len(ranges), orders[0].names[0])
            chosen = [within(ranges, order) for order in orders]
        else:
            log.info("comparing keys by their hash: the files hold no ranges of %s", orders[0].names[0])
            chosen = [hashed(key, share, version) for key in (self.plan.spec.key, self.key or ())]
        wanted = self.transform.apply(source.at(epoch).where(chosen[0]))
        actual = target.at(version).where(chosen[1]).select(self._columns)
        read = [partial(digests, rows, BUCKETS, self.key, self.row_hash) for rows in (wanted, actual)]
        expected, found = side_by_side(self.spark, read, len(read))
        return found if expected == found else None

    def _equal(
        self, epoch: int, version: int, now: int, found: Mapping[int, Digest], kind: ProofKind, gone: int = 0
    ) -> Certificate:
        rows = sum(digest.rows for digest in found.values())
        log.info("equal at epoch %d: %d rows in %d buckets (%s proof)", epoch, rows, BUCKETS, kind.value)
        return Certificate(epoch, version, rows, _fingerprint(found), BUCKETS, now, self.row_hash, kind, gone)

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
        have = sum(digest.rows for digest in found.values())
        if rows is not None and rows != have:
            raise VerificationFailed(
                f"version {version} of the target has {have} rows, but {rows} were written to it: rows are missing or "
                "doubled; plan again with on_existing='restart'",
                epoch=epoch,
                target_version=version,
                rows=have,
                written=rows,
            )
        log.warning("%d records are gone and cannot be compared", gone)
        return self._equal(epoch, version, now, found, ProofKind.FULL, gone)

    def _failed(self, epoch: int, version: int, differing: Differences) -> VerificationFailed:
        counts = {kind.value: count for kind, count in differing.counts.items()}
        return VerificationFailed(
            f"{how_many_differ(counts, keyed=bool(self.key))}: version {version} of the target is not the transformed "
            f"source at epoch {epoch}; "
            + (
                f"run `table-backfill repair {self.plan.spec.target} --why REASON`, which rewrites these keys, then "
                "clear verify"
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
            self._reading(epoch),
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
        target = _Side("target", self.plan.spec.target, version)
        if self.history is None:
            wanted, found = self._digests([_Side("source", self.plan.spec.table, epoch), target])
            return wanted, found
        (found,) = self._digests([target])
        with self._reading(epoch):
            return digests(self.history(epoch), BUCKETS, self.key, self.row_hash), found

    @contextmanager
    def _reading(self, epoch: int | None) -> Iterator[None]:
        """Add to HistoryLost of the source at ``epoch`` how to prove a newer one. None: only the target is read; with
        the source it may be read, too.
        """
        try:
            with lost_history_named():
                yield
        except HistoryLost as lost:
            target = self.plan.spec.target
            if epoch is None or unreadable_file(lost, target) is not None:
                raise
            way = (
                f"run `table-backfill recover {target} --epoch N --why REASON`, clear verify, and repair the keys that "
                "differ"
            )
            if not self.key or self.history is not None:
                way = f"run `table-backfill cancel {target}`, plan again and clear the tasks: applied rows stay"
            raise HistoryLost(
                f"epoch {epoch} of the source is incomplete, so the target cannot be compared with it: {lost.message}. "
                f"To prove a newer one, {way}",
                **{**lost.data, "epoch": epoch},
            ) from lost

    def _digests(self, sides: Sequence[_Side]) -> list[dict[int, Digest]]:
        """The digests of each side, added up over its parts. Several parts are read at once: one fills the cores that
        another leaves idle while it is planned, or at its end.
        """
        parts = side_by_side(self.spark, [partial(self._parts, side) for side in sides], len(sides))
        in_turns = [part for turn in zip_longest(*parts) for part in turn if part is not None]
        at_once = 1 + -(-self.spark.sparkContext.defaultParallelism // PART_TASKS)
        with settings_for(self.spark, {"spark.sql.files.openCostInBytes": str(OPEN_BYTES)}):
            read = side_by_side(self.spark, [partial(self._digests_of, part) for part in in_turns], at_once)
        sums: dict[_Side, dict[int, Digest]] = {side: {} for side in sides}
        for part, digest in zip(in_turns, read, strict=True):
            sums[part.side] = added(sums[part.side], digest)
        return [sums[side] for side in sides]

    def _parts(self, side: _Side) -> list[_Part]:
        with self._reading(side.epoch):
            files = open_source(self.spark, side.table).files(side.version)
            sizes = [file.size for file in files.files]
        borders = FileSplits.cut(sizes, max(1, -(-sum(sizes) // self.part_bytes)))
        return [_Part(side, files, n + 1, range(start, stop)) for n, (start, stop) in enumerate(pairwise(borders))]

    def _digests_of(self, part: _Part) -> dict[int, Digest]:
        side, files = part.side, part.files.files[part.indices.start : part.indices.stop]
        content = [[file.path, file.size, file.deleted] for file in files]
        name = fingerprint([self.plan.fingerprint, side.name, content, BUCKETS, self.row_hash.value])
        stored = self.control.part(name)
        if stored is not None:
            return _parsed(stored)
        log.info("%s at version %d: part %d, %d files", side.name, side.version, part.number, len(files))
        with self._reading(side.epoch):
            rows = part.files.read(part.indices)
            comparable = self.transform.apply(rows) if side.name == "source" else rows.select(self._columns)
            found = digests(comparable, BUCKETS, self.key, self.row_hash)
        self.control.store_part(name, {str(bucket): digest.to_json() for bucket, digest in found.items()})
        crash_point("after_part")
        return found


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of the comparison: a version of a table."""

    name: str
    table: str
    version: int

    @property
    def epoch(self) -> int | None:
        """That of the source; None for the target."""
        return self.version if self.name == "source" else None


@dataclass(frozen=True, slots=True)
class _Part:
    """Some files of a side, to be read in one job."""

    side: _Side
    files: VersionFiles
    number: int
    indices: range


def _parsed(stored: Mapping[str, Any]) -> dict[int, Digest]:
    try:
        return {int(bucket): Digest.from_json(digest) for bucket, digest in stored.items()}
    except (AttributeError, TypeError, ValueError):
        raise RecordInvalid(
            "a stored part of the proof is damaged, so the proof cannot go on from it; remove the folder "
            "<target>.backfill/proofs, then clear the task"
        ) from None


def _fingerprint(buckets: Mapping[int, Digest]) -> str:
    text = ";".join(f"{bucket}:{digest.rows}:{digest.total:032x}" for bucket, digest in sorted(buckets.items()))
    return hashlib.sha256(text.encode()).hexdigest()
