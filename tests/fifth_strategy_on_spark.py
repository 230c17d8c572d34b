from __future__ import annotations

from airflow_backfill.core.model.record import Record
from airflow_backfill.core.splits.files import FileSplits
from airflow_backfill.core.state.effect import AppendFiles, FileSize, Work
from airflow_backfill.spark.preflight.table import Preflight
from airflow_backfill.spark.source.source import VersionFiles
from airflow_backfill.spark.strategies import strategy
from airflow_backfill.spark.strategies.strategy import Cut
from airflow_backfill.spark.strategies.table import TableRounds
from airflow_backfill.spark.target_table import apply
from tests.fifth_strategy import Blocks


class Preparation(strategy.Preparation):
    def cut(self, found: Preflight) -> Cut:
        borders = FileSplits.cut([file.size for file in found.files], 8)
        return Cut(Blocks(borders, found.bytes, found.rows))


class Rounds(TableRounds):
    @property
    def files(self) -> tuple[FileSize, ...]:
        return tuple(FileSize(file.size, file.rows) for file in self._pinned.files)

    def write(self, work: Work, record: Record, txn: apply.Txn, text: str) -> None:
        if isinstance(work, AppendFiles):
            rows = self._pinned.read(*(range(*run) for run in work.runs))
            apply.append(self.transform.apply(rows), self.target, txn, text)
        else:
            super().write(work, record, txn, text)

    @property
    def _pinned(self) -> VersionFiles:
        return self.source.files(self.plan.source.epoch)
