"""The digest of the transformed source, added up from what a build has read of it, without reading it again.

When a round has read a piece of the source, the digest of the piece is stored beside the target: of files of the pinned
epoch, or of the changes of epochs (rows that come, minus rows that go). That is a fact about the source, whatever
became of the round's commit, so it counts once, however often rounds were repeated. A piece without a digest (the
application was killed before it was stored, or the round read removed rows without all their columns) is read when
the sum is wanted.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from operator import attrgetter
from typing import Any, Protocol

from airflow_backfill.core.errors import BackfillError
from airflow_backfill.core.model.certificate import Certificate
from airflow_backfill.core.model.plan import Plan
from airflow_backfill.core.state.effect import VerifyTarget
from airflow_backfill.core.values.digest import NONE, Digest
from airflow_backfill.core.values.document import parts
from airflow_backfill.core.values.piece import Line, Piece, cover

log = logging.getLogger(__name__)

AT_ONCE = 256
"""Of a missing piece, so many files or epochs are read at a time."""
JOINED_EPOCHS = 256
"""In a joined piece, at least. A follower stores a piece for each round, and each proof reads all of them."""


class DigestStore(Protocol):
    """Where digests of pieces are kept, by build: the control folder."""

    def store_digest(self, build: str, piece: Mapping[str, Any], digest: Sequence[Any]) -> None: ...

    def forget_digests(self, build: str, pieces: Iterable[Mapping[str, Any]]) -> None: ...

    def digests(self, build: str) -> Iterable[Any]: ...


@dataclass(frozen=True)
class SourceDigests:
    """The digests of one build's source."""

    plan: Plan
    files: int
    """How many files the pinned epoch has."""
    kept: DigestStore
    read: Callable[[Piece], Digest]
    """Reads a piece with one run of numbers from the source. Its errors have a code."""
    joined_epochs: int = JOINED_EPOCHS

    def certificate(self, wanted: VerifyTarget, compare: Callable[[Digest], Certificate | None]) -> Certificate | None:
        """The certificate of an incremental proof; None if the source has to be read to decide.

        ``compare``: given the digest of the transformed source, the certificate; None if the target has another one.
        """
        try:
            digest = self.at(wanted.epoch)
            reread = self.reread(wanted.epoch, wanted.sample, wanted.target_version)
        except BackfillError as error:
            if error.retry:
                raise
            log.warning("a part of the source cannot be read again, so all of it is read at the epoch: %s", error)
            return None
        if reread is None:
            return None
        certificate = compare(digest)
        if certificate is None:
            log.warning("the target differs from the digest of the source: all of the source is read to name the keys")
            return None
        return replace(certificate, reread=reread)

    def store(self, piece: Piece, digest: Digest) -> None:
        """Store the digest of a piece."""
        self.kept.store_digest(self.plan.build, piece.to_json(), digest.to_json())

    def at(self, epoch: int) -> Digest:
        """The digest of all transformed rows at this epoch. HistoryLost if a missing piece cannot be read any more."""
        known = self._known()
        total = NONE
        for line, whole in self._lines(epoch):
            found = cover(known, line, whole)
            for piece in found.chosen:
                total = total + known[piece]
            for piece in _cut(found.missing):
                log.info("%s %s: no digest is stored, so they are read again", line.value, piece.runs)
                digest = self.read(piece)
                self.store(piece, digest)
                total = total + digest
            if line is Line.EPOCHS:
                self._join([piece for piece in found.chosen if piece.runs[-1][1] <= epoch - self.joined_epochs], known)
        return total

    def _join(self, pieces: Sequence[Piece], known: Mapping[Piece, Digest]) -> None:
        """Store pieces of epochs that follow each other as one. A crash in the middle leaves both, and either counts.

        A proof at an epoch inside of a joined piece reads the piece's epochs again, so the newest stay apart: an older
        version of the target may be restored.
        """
        block = list[Piece]()
        by_runs = attrgetter("runs")
        for runs, group in groupby(sorted(pieces, key=by_runs), key=by_runs):
            if block and block[-1].runs[-1][1] != runs[0][0]:
                block = []
            block += group
            start, stop = block[0].runs[0][0], runs[-1][1]
            if stop - start >= self.joined_epochs:
                if len(block) > 1:
                    self.store(Piece(Line.EPOCHS, ((start, stop),)), sum((known[piece] for piece in block), NONE))
                    self.kept.forget_digests(self.plan.build, [piece.to_json() for piece in block])
                block = []

    def reread(self, epoch: int, share: float, seed: int) -> int | None:
        """Read stored pieces again, chosen at random: at least this share of the files and of the epochs. Their number;
        None if a piece is not what it was. HistoryLost if it cannot be read any more.
        """
        known, chance, numbers = self._known(), random.Random(seed), 0
        for line, whole in self._lines(epoch):
            sums = dict[tuple[tuple[int, int], ...], Digest]()
            for piece in cover(known, line, whole).chosen:
                sums[piece.runs] = sums.get(piece.runs, NONE) + known[piece]
            order, left = chance.sample(sorted(sums), len(sums)), share * len(whole)
            while order and left > 0:
                runs = order.pop()
                pieces = [Piece(line, (run,)) for run in runs]
                if sum((self.read(piece) for piece in _cut(pieces)), NONE) != sums[runs]:
                    log.warning(
                        "%s %s of the source read differently now than while the build read them", line.value, runs
                    )
                    return None
                numbers += sum(stop - start for start, stop in runs)
                left -= sum(stop - start for start, stop in runs)
        return numbers

    def _known(self) -> dict[Piece, Digest]:
        return dict(_known(self.kept.digests(self.plan.build)))

    def _lines(self, epoch: int) -> Iterator[tuple[Line, range]]:
        """What the rows at ``epoch`` add up from."""
        yield Line.FILES, range(self.files)
        yield Line.EPOCHS, range(self.plan.source.epoch + 1, epoch + 1)


def _known(documents: Iterable[Any]) -> Iterator[tuple[Piece, Digest]]:
    """Pieces with their digests. A damaged document counts as missing: its piece is read again."""
    for document in documents:
        try:
            piece, digest = parts(document, "piece", "digest")
            yield Piece.from_json(piece), Digest.from_json(digest)
        except ValueError:
            log.warning("a stored digest is damaged: %s", document)


def _cut(pieces: Sequence[Piece]) -> Iterator[Piece]:
    for piece in pieces:
        ((start, stop),) = piece.runs
        for low, high in pairwise([*range(start, stop, AT_ONCE), stop]):
            yield Piece(piece.line, ((low, high),))
