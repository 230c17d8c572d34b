"""The arrangement on Spark: reads ranges of the key at the newest epoch, and applies changes of keys already read."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow_backfill.core.model.record import Record
from airflow_backfill.core.splits.ranges import KeyRanges
from airflow_backfill.core.state.effect import Effect, NextChunk, ReadRanges, Work
from airflow_backfill.spark.open_source import open_source
from airflow_backfill.spark.preflight.table import Preflight
from airflow_backfill.spark.source.ranges import CLUSTERED, Behind, Ranges, stands
from airflow_backfill.spark.strategies import strategy
from airflow_backfill.spark.strategies.strategy import SPLITS, Cut
from airflow_backfill.spark.strategies.table import TableRounds
from airflow_backfill.spark.target_table import apply

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

    def answer(self, effect: Effect[Any]) -> Any:
        if isinstance(effect, NextChunk):
            return self._ranges.cut(self._planned, effect)
        return super().answer(effect)

    def write(self, work: Work, record: Record, txn: apply.Txn, text: str) -> None:
        """Commit the changes of keys up to the old positions, and the rows from there to the new positions."""
        if not isinstance(work, ReadRanges):
            super().write(work, record, txn, text)
            return
        first, low = stands(self._planned, work.before)
        reached, high = stands(self._planned, work.after)
        more = (first, low) != (reached, high)
        read = self._ranges.rows(work.epoch, low, high if reached < len(self._planned) else None)
        rows = self.transform.apply(read) if more else None
        if work.changes is None:
            assert rows is not None
            apply.append(rows, self.target, txn, text)
            return
        behind = Behind(self._ranges.order, low if first < len(self._planned) else None)
        self.apply_changes(work.changes, record, behind, rows, txn, text)

    @property
    def _planned(self) -> KeyRanges:
        assert isinstance(self.plan.splits, KeyRanges)
        return self.plan.splits

    @cached_property
    def _ranges(self) -> Ranges:
        return Ranges.of(self.source, self.plan.spec.key, self.transform.source_schema, self.plan.source.epoch)
