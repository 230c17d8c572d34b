"""The snapshot on Spark: the files of one pinned epoch, cut by size and appended in rounds."""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise

from airflow_backfill.core.errors import HistoryLost
from airflow_backfill.core.model.record import Record
from airflow_backfill.core.splits.files import FileSplits
from airflow_backfill.core.state.effect import AppendFiles, FileSize, Work
from airflow_backfill.core.values.piece import Line, Piece
from airflow_backfill.spark.preflight.table import Preflight
from airflow_backfill.spark.source.source import VersionFiles
from airflow_backfill.spark.strategies import strategy
from airflow_backfill.spark.strategies.strategy import SPLITS, Cut
from airflow_backfill.spark.strategies.table import TableRounds
from airflow_backfill.spark.target_table import apply


class Preparation(strategy.Preparation):
    """Splits are runs of files."""

    def cut(self, found: Preflight) -> Cut:
        files = found.files
        borders = FileSplits.cut([f.size for f in files], max(SPLITS, self.lanes))
        rows = [f.rows or 0 for f in files]
        splits = FileSplits(
            borders=borders,
            bytes=found.bytes,
            rows=found.rows,
            digest=FileSplits.digest_of((f.path, f.size) for f in files),
            split_rows=None if found.rows is None else tuple(sum(rows[a:b]) for a, b in pairwise(borders)),
        )
        largest = max(files, key=lambda f: f.size, default=None)
        if largest is None or largest.size <= self.size.bytes:
            return Cut(splits)
        return Cut(splits, notes=[f"the largest file has {largest.size:,} bytes, more than a round: {largest.path}"])


class Rounds(TableRounds):
    """Appends files of the pinned epoch."""

    @cached_property
    def files(self) -> tuple[FileSize, ...]:
        """The pinned files; HistoryLost unless they are the planned ones."""
        planned = self.plan.splits
        assert isinstance(planned, FileSplits)
        files = self._snapshot.files
        if FileSplits.digest_of((f.path, f.size) for f in files) != planned.digest:
            raise HistoryLost(
                f"epoch {self.plan.source.epoch} of the source no longer has the planned files: the source was "
                "restored or rewritten, and a mix of two histories would be copied; plan again with "
                "on_existing='restart'",
                epoch=self.plan.source.epoch,
            )
        return tuple(FileSize(f.size, f.rows) for f in files)

    def write(self, work: Work, record: Record, txn: apply.Txn, text: str) -> None:
        if not isinstance(work, AppendFiles):
            super().write(work, record, txn, text)
            return
        chosen = [range(start, stop) for start, stop in work.runs]
        rows = self.transform.apply(self._snapshot.read(*chosen))
        with self._snapshot.evenly(*chosen):
            self.append(rows, Piece(Line.FILES, work.runs), txn, text)

    @cached_property
    def _snapshot(self) -> VersionFiles:
        return self.source.files(self.plan.source.epoch)
