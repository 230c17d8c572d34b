"""The digest of a piece of the source that is read only for it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from airflow_backfill.core.model.plan import Plan
from airflow_backfill.core.values.digest import NONE, Digest
from airflow_backfill.core.values.epoch import EpochRange
from airflow_backfill.core.values.piece import Line, Piece
from airflow_backfill.core.values.row_hash import RowHash
from airflow_backfill.spark.digest.digest import digested, digests_by
from airflow_backfill.spark.open_source import open_source
from airflow_backfill.spark.session.failure import coded, lost_history_named
from airflow_backfill.spark.source.digest import digest_of_changes
from airflow_backfill.spark.source.source import VersionFiles
from airflow_backfill.spark.transform.transform import Transform

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class PieceReader:
    """Reads pieces of one build's source."""

    spark: SparkSession
    plan: Plan
    transform: Transform

    def read(self, piece: Piece) -> Digest:
        """The digest of the transformed rows of a piece with one run of numbers.

        Every error has a code; HistoryLost if the source no longer has the piece.
        """
        ((start, stop),) = piece.runs
        try:
            return self._of_files(start, stop) if piece.line is Line.FILES else self._of_epochs(start, stop)
        except Exception as error:
            raise coded(error) from error

    @cached_property
    def _pinned(self) -> VersionFiles:
        return open_source(self.spark, self.plan.spec.table).files(self.plan.source.epoch)

    def _of_files(self, start: int, stop: int) -> Digest:
        with lost_history_named():
            rows = self.transform.apply(self._pinned.read(range(start, stop)))
            return digests_by(digested(rows, rows.schema, RowHash.TYPED), F.lit(0)).get(0, NONE)

    def _of_epochs(self, start: int, stop: int) -> Digest:
        spec, columns = self.plan.spec, self.transform.source_schema.fieldNames()
        source = open_source(self.spark, spec.table)
        changes = source.changes(EpochRange(start, stop), columns, spec.key, feed=not self.plan.appends, whole=True)
        return digest_of_changes(changes, self.transform)
