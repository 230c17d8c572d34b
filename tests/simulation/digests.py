"""What a simulated build keeps of its source for an incremental proof: production code adds it up."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_backfill.core.errors import HistoryLost
from airflow_backfill.core.model.certificate import Certificate
from airflow_backfill.core.model.plan import Plan
from airflow_backfill.core.splits.files import FileSplits
from airflow_backfill.core.state import effect as fx
from airflow_backfill.core.values.digest import MODULUS, Digest
from airflow_backfill.core.values.piece import Line, Piece
from airflow_backfill.core.values.proof_kind import ProofKind
from airflow_backfill.core.values.row_hash import RowHash
from airflow_backfill.spark.verify.source_digests import SourceDigests
from tests.simulation.invariant import must
from tests.simulation.target import Bag, same

if TYPE_CHECKING:
    from tests.simulation.world import World

JOINED_EPOCHS = 3
"""In a joined piece, so that a follower of a few epochs joins some."""


@dataclass
class DigestFolder:
    """The digests beside the target. Some are damaged, and some are left behind."""

    rng: random.Random
    builds: dict[str, dict[str, str]] = field(default_factory=dict)

    def store_digest(self, build: str, piece: Mapping[str, Any], digest: Sequence[Any]) -> None:
        document = json.dumps({"piece": piece, "digest": digest})
        self.builds.setdefault(build, {})[json.dumps(piece)] = document if self.rng.random() > 0.02 else "{}"

    def forget_digests(self, build: str, pieces: Iterable[Mapping[str, Any]]) -> None:
        for piece in pieces:
            if self.rng.random() > 0.1:  # else as if it had been killed
                del self.builds[build][json.dumps(piece)]

    def digests(self, build: str) -> Iterator[Any]:
        found = list(self.builds.get(build, {}).values())
        self.rng.shuffle(found)
        yield from map(json.loads, found)


def digest_of(rows: Bag) -> Digest:
    """The digest of the target's rows."""
    return Digest(sum(rows.values()), sum(hash(row) * n for row, n in rows.items()) % MODULUS)


def source_digests(world: World, plan: Plan) -> SourceDigests:
    """Those of a build, with the source of the world for what is missing."""
    assert isinstance(plan.splits, FileSplits)
    return SourceDigests(plan, plan.splits.files, world.digests, lambda piece: _read(world, plan, piece), JOINED_EPOCHS)


def keep(world: World, plan: Plan, work: fx.Work) -> None:
    """Keep the digest of what a round has read, unless Spark has lost it."""
    match work:
        case fx.AppendFiles(runs):
            piece = Piece(Line.FILES, tuple(runs))
        case fx.ApplyEpochs(epochs, bucket, of):
            piece = Piece(Line.EPOCHS, ((epochs.start, epochs.stop),), bucket, of)
        case _:
            return
    if world.digests.rng.random() > 0.1:
        source_digests(world, plan).store(piece, _read(world, plan, piece))


def added_up(world: World, plan: Plan, asked: fx.VerifyTarget, now: int) -> Certificate | None:
    """The certificate of an incremental proof; None if the source has to be read. Raises Violation if the sum is not
    that of the source's rows, or if it proves other rows.
    """
    epoch, version, source = asked.epoch, asked.target_version, world.source
    expected, content = world.expected(epoch), world.target.log[version].content

    def compare(wanted: Digest) -> Certificate | None:
        if not source.forgot:
            must(wanted == digest_of(expected), f"the source's digests do not add up to its rows at epoch {epoch}")
        if digest_of(content) != wanted:
            return None
        world.judge.proofs.add((epoch, version))
        must(same(content, expected), f"version {version} is wrong, and an incremental proof finds it equal")
        return Certificate(epoch, version, wanted.rows, "digest", 1, now, RowHash.TYPED, ProofKind.INCREMENTAL)

    certificate = source_digests(world, plan).certificate(asked, compare)
    lost = source.earliest or source.vacuumed_before or source.forgot
    gave_up = certificate is None and not lost and same(content, expected)
    must(not gave_up, "an incremental proof gives up, but nothing is lost")
    return certificate


def _read(world: World, plan: Plan, piece: Piece) -> Digest:
    source = world.source
    if piece.line is Line.FILES:
        found = (source.read_files(plan.source.epoch, range(*run)) for run in piece.runs)
        return digest_of(Counter(row for rows in found for row in rows))
    ((start, stop),) = piece.runs
    if start < source.earliest:
        raise HistoryLost(f"epoch {start} is gone", version=start)
    before, after = world.expected(start - 1), world.expected(stop - 1)
    if piece.of > 1:
        before, after = (
            Counter({row: n for row, n in rows.items() if row[0] % piece.of == piece.bucket})
            for rows in (before, after)
        )
    return digest_of(after) + -digest_of(before)
