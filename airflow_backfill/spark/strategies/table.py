"""Common to the strategies with a table as source: applying its log, and the proof."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from airflow_backfill.core.errors import NotAppendOnly
from airflow_backfill.core.model.certificate import Certificate
from airflow_backfill.core.model.record import Record
from airflow_backfill.core.source.identity import check_read
from airflow_backfill.core.splits.files import FileSplits
from airflow_backfill.core.splits.position import Position
from airflow_backfill.core.state.effect import ApplyEpochs, Effect, VerifyTarget, Work
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.epoch import EpochRange
from airflow_backfill.core.values.piece import Line, Piece
from airflow_backfill.core.values.proof_kind import ProofKind
from airflow_backfill.ledger.control_folder import changes_beside
from airflow_backfill.spark.delta_internals import rebuilding
from airflow_backfill.spark.digest.observed import ObservedRows
from airflow_backfill.spark.open_source import open_source
from airflow_backfill.spark.session.faults import crash_point
from airflow_backfill.spark.source.changes import Changes
from airflow_backfill.spark.source.source import Source
from airflow_backfill.spark.strategies import strategy
from airflow_backfill.spark.target_table import apply
from airflow_backfill.spark.target_table.buckets import Buckets
from airflow_backfill.spark.target_table.net_change import NetChanges, Part, net_changes
from airflow_backfill.spark.target_table.repeated_keys import RepeatedKeys
from airflow_backfill.spark.target_table.split_epochs import SplitEpochs
from airflow_backfill.spark.transform.transform import Transform, parse, schema_of, some_columns
from airflow_backfill.spark.verify.piece_reader import PieceReader
from airflow_backfill.spark.verify.proof import Proof
from airflow_backfill.spark.verify.sample import USUAL_SHARE
from airflow_backfill.spark.verify.source_digests import SourceDigests

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)


class TableRounds(strategy.Rounds):
    """Applies the log of a table, and proves the target equal to an epoch of it."""

    @cached_property
    def source(self) -> Source:
        return open_source(self.spark, self.plan.spec.table)

    @cached_property
    def transform(self) -> Transform:
        spec = self.plan.spec
        schema = some_columns(schema_of(self.plan.source.schema_json), self.plan.source.columns)
        return parse(self.spark, schema, spec.select, spec.where, spec.functions)

    def answer(self, effect: Effect[Any]) -> Any:
        raise TypeError(f"no strategy of a table asks for {effect}")

    def write(self, work: Work, record: Record, txn: apply.Txn, text: str) -> None:
        if not isinstance(work, ApplyEpochs):
            raise TypeError(f"no strategy of a table does {work}")
        piece = Piece(Line.EPOCHS, ((work.epochs.start, work.epochs.stop),), work.bucket, work.of)
        if self.plan.appends:
            self.append(self._added(work.epochs, record), piece, txn, text)
            return
        buckets = Buckets(work.bucket, work.bucket + 1, work.of) if work.of > 1 else None
        commit = partial(self.commit, txn=txn, text=text)
        self.apply_changes(work.epochs, record, buckets, commit, piece if self._adds_up else None)
        if work.bucket + 1 == work.of:
            self._split_epochs.clean()

    def append(self, rows: DataFrame, piece: Piece, txn: apply.Txn, text: str) -> None:
        """Append these rows of the transformed source, which are all of this piece of it."""
        if not self._adds_up:
            return apply.append(rows, self.target, txn, text)
        observed = ObservedRows.of(rows)
        apply.append(observed.rows, self.target, txn, text)
        digest = observed.digest()
        if digest is not None:
            self.source_digests.store(piece, digest)

    def apply_changes(
        self,
        epochs: EpochRange,
        record: Record,
        part: Part | None,
        commit: Callable[[NetChanges], None],
        piece: Piece | None = None,
    ) -> None:
        """Read the changes of these epochs, or a ``part`` of them, and ``commit`` them. If they are a ``piece`` of the
        source, store its digest.

        Raises DuplicateKey if a key then has several rows.
        """
        transform, repeated = self.transform, self._repeated_keys
        changes = self._changes(epochs, record)
        for line in changes.how:
            log.info(line)
        with nullcontext() if changes.only_adds else rebuilding(self.spark, self.target):
            changed = net_changes(
                changes, transform, self.key, part, digested=piece is not None, split=self._split_epochs
            )
        with changed as net:
            if piece is not None and net.digest is not None:
                self.source_digests.store(piece, net.digest)
            crash_point("before_apply")
            if not repeated.suspects(net):
                try:
                    return commit(net)
                except apply.KeyMet as met:
                    log.info("%s: looking at the source again", met)
            with repeated.settled(net, epochs.last) as settled:
                commit(settled)

    def commit(self, net: NetChanges, txn: apply.Txn, text: str) -> None:
        """Apply these changes in one commit."""
        apply.changes(net, self.target, self.key, txn, text, narrowed=apply.narrowed(self.plan))

    def proof(self, positions: tuple[Position, ...]) -> Proof:
        return Proof(self.spark, self.plan, self.transform, self.reader.control)

    def certificate(self, wanted: VerifyTarget, now: int) -> Certificate:
        proof = replace(self.proof(wanted.positions), row_hash=wanted.row_hash)
        certificate = None
        if wanted.kind is ProofKind.INCREMENTAL:
            compare = partial(proof.incremental, wanted.epoch, wanted.target_version, now)
            certificate = self.source_digests.certificate(wanted, compare)
        elif wanted.kind is ProofKind.SAMPLED:
            certificate = proof.sampled(wanted.epoch, wanted.target_version, now, wanted.sample or USUAL_SHARE)
            if certificate is None:
                log.warning("the sample differs: all of both sides is read to name the keys")
        return certificate or proof.certificate(wanted.epoch, wanted.target_version, now)

    @property
    def _adds_up(self) -> bool:
        return self.plan.spec.proof is ProofKind.INCREMENTAL

    @cached_property
    def source_digests(self) -> SourceDigests:
        assert isinstance(self.plan.splits, FileSplits)
        pieces = PieceReader(self.spark, self.plan, self.transform)
        return SourceDigests(self.plan, self.plan.splits.files, self.reader.control, pieces.read)

    def stream(self, session: SparkSession, state: BuildState) -> DataFrame:
        assert state.applied is not None
        return self.source.later(session, state.applied, feed=not self.plan.appends)

    @property
    def key(self) -> Sequence[str]:
        """The target's columns that hold the key."""
        return self.transform.target_key(self.plan.spec.key)

    @cached_property
    def _repeated_keys(self) -> RepeatedKeys:
        return RepeatedKeys(self.source, self.target, self.transform, self.plan.spec.key)

    @cached_property
    def _split_epochs(self) -> SplitEpochs:
        return SplitEpochs(self.spark, changes_beside(self.target, self.plan.build), self.plan.fingerprint)

    def _changes(self, epochs: EpochRange, record: Record, *, feed: bool = True) -> Changes:
        """The changes of these epochs. SourceUnavailable if they are not of the source that the ``record`` names."""
        columns = self.transform.source_schema.fieldNames()
        changes = self.source.changes(epochs, columns, self.plan.spec.key, feed=feed)
        check_read(changes.last, record.source)
        return changes

    def _added(self, epochs: EpochRange, record: Record) -> DataFrame:
        """The rows that these epochs added. Keys are not checked, and equal rows are kept."""
        changes = self._changes(epochs, record, feed=False)
        if not changes.only_adds:
            raise NotAppendOnly(
                f"epochs {epochs.start} to {epochs.last} change or delete rows, but this build can only append; give "
                "the source a change data feed and the build a key, then plan again with on_existing='restart'",
                epoch=epochs.start,
            )
        changes.prove(changes.counted())
        crash_point("before_apply")
        return self.transform.apply(changes.frame)
