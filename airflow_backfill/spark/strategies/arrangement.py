"""The arrangement on Spark: reads ranges of the key at the newest epoch, and applies changes of keys already read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow_backfill.core.errors import HistoryLost, SourceUnavailable
from airflow_backfill.core.model.record import Record
from airflow_backfill.core.splits.ranges import KeyRanges
from airflow_backfill.core.state.effect import Effect, NextChunk, ReadRanges, Work
from airflow_backfill.spark.open_source import open_source
from airflow_backfill.spark.preflight.table import Preflight
from airflow_backfill.spark.session.failure import coded
from airflow_backfill.spark.session.lost_file import unreadable_file
from airflow_backfill.spark.source.ranges import CLUSTERED, Behind, Ranges
from airflow_backfill.spark.strategies import strategy
from airflow_backfill.spark.strategies.strategy import SPLITS, Cut
from airflow_backfill.spark.strategies.table import TableRounds
from airflow_backfill.spark.target_table import apply
from airflow_backfill.spark.target_table.net_change import NetChanges

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def key_ranges(spark: SparkSession, found: Preflight) -> Ranges:
    """The source's ranges of its key; KeyInvalid if the key has no order."""
    source, schema = open_source(spark, found.spec.table), found.transform.source_schema
    return Ranges.of(source, found.spec.key, schema, found.epoch)


class Preparation(strategy.Preparation):
    """Splits are ranges of the key."""

    def cut(self, found: Preflight) -> Cut:
        ranges = key_ranges(self.spark, found)
        splits, often = ranges.plan(found.epoch, SPLITS, self.size.bytes)
        notes = [f"every byte of the source is read about {often:.1f} times"]
        if often > CLUSTERED:
            notes.append(
                "the source's files are not clustered by the key, so each round opens most of them; cheaper: "
                f"OPTIMIZE … ZORDER BY ({self.spec.key[0]}), larger rounds, or strategy='snapshot', which reads each "
                "file once"
            )
        return Cut(splits, often, notes)


class Rounds(TableRounds):
    """Reads chunks of the ranges, and applies the changes of keys already read in the same commit."""

    _gone_at = -1
    """The newest epoch that could not be read."""

    def answer(self, effect: Effect[Any]) -> Any:
        if isinstance(effect, NextChunk):
            with self._reading(effect.epoch):
                return self._ranges.cut(self._planned, effect)
        return super().answer(effect)

    def write(self, work: Work, record: Record, txn: apply.Txn, text: str) -> None:
        """Commit the changes of keys up to the old positions, and the rows from there to the new positions."""
        if not isinstance(work, ReadRanges):
            super().write(work, record, txn, text)
            return
        first, low = self._planned.reached(work.before)
        reached, high = self._planned.reached(work.after)
        more = (first, low) != (reached, high)
        read = self._ranges.rows(work.epoch, low, high if reached < len(self._planned) else None)
        rows = self.transform.apply(read) if more else None
        if work.changes is None:
            assert rows is not None
            with self._reading(work.epoch):
                apply.append(rows, self.target, txn, text)
            return

        def commit(net: NetChanges) -> None:
            with self._reading(work.epoch):
                self.commit(net if rows is None else net.with_new(rows), txn, text)

        behind = Behind(self._ranges.order, low if first < len(self._planned) else None)
        self.apply_changes(work.changes, record, behind, commit)

    @contextmanager
    def _reading(self, epoch: int) -> Iterator[None]:
        """A read of rows at an epoch. If a file of the source is gone, and it has a newer epoch, raises
        SourceUnavailable, so that the attempt cuts the next round at that one; only once for each epoch.
        """
        try:
            yield
        except Exception as error:
            lost = coded(error)
            gone = unreadable_file(lost, self.plan.spec.table) if isinstance(lost, HistoryLost) else None
            if gone is None or epoch <= self._gone_at or (head := self.source.head) <= epoch:
                raise
            self._gone_at = epoch
            raise SourceUnavailable(
                f"a file of epoch {epoch} of the source was deleted while a round read it ({gone}); epoch {head} is "
                "read instead",
                file=gone,
            ) from error

    @property
    def _planned(self) -> KeyRanges:
        assert isinstance(self.plan.splits, KeyRanges)
        return self.plan.splits

    @cached_property
    def _ranges(self) -> Ranges:
        return Ranges.of(self.source, self.plan.spec.key, self.transform.source_schema, self.plan.source.epoch)
