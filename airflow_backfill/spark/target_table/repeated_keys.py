"""Keys with several rows in the source.

Changes are applied by key, so a repeated key would lose a row or keep one too many. A key is suspected if its changes
contradict each other (see ``net_change``), or if a row is added whose key the target already has: the MERGE itself
notices (``apply.KeyMet``), and before an append the target is read. Then the source at the last epoch decides: a key
with at most one row there gets exactly that row; a key with several rows is an error before anything is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from airflow_backfill.core.errors import DuplicateKey
from airflow_backfill.spark.session.failure import lost_history_named
from airflow_backfill.spark.session.staged import held
from airflow_backfill.spark.source.changes import CHANGE_TYPE, COMES, EPOCH, sample_of
from airflow_backfill.spark.source.source import Source
from airflow_backfill.spark.target_table.net_change import NEW, PLACE, REPEATED, NetChanges
from airflow_backfill.spark.transform.transform import OWN, Transform, quoted

SAMPLE = 5
BROADCAST_ROWS = 1_000_000
"""Up to this number, new keys are broadcast when they are joined with the target."""


@dataclass(frozen=True)
class RepeatedKeys:
    """Finds repeated keys in the changes of one build."""

    source: Source
    target: str
    transform: Transform
    source_key: Sequence[str]

    @property
    def key(self) -> Sequence[str]:
        """The key columns of the target."""
        return self.transform.target_key(self.source_key)

    def suspects(self, net: NetChanges) -> bool:
        """Whether keys are suspected before the changes are applied. A MERGE finds the others by itself (KeyMet)."""
        return bool(net.repeated or (net.only_inserts and net.new and self._met(net).limit(1).collect()))

    @contextmanager
    def settled(self, net: NetChanges, epoch: int) -> Iterator[NetChanges]:
        """The changes up to ``epoch``, where suspected keys get their rows of the source at that epoch. Valid in the
        block. Raises DuplicateKey if a key has several rows there.
        """
        odd = net.staged.where(REPEATED).select(*_columns(self.key))
        with lost_history_named(), held(odd.union(self._met(net)).distinct()) as suspects:
            names = [f"{OWN}key_{i}" for i in range(len(self.key))]
            same = F.lit(True)
            for column, name in zip(_columns(self.source_key), names, strict=True):
                same = same & (column == F.col(name))
            with held(self.source.at(epoch).join(suspects.toDF(*names), same, "left_semi")) as rows:
                self._check(rows, net, epoch)
                settled = net.replacing(suspects, self.transform.apply(rows))
                # Spark's optimizer cannot take this union into the join of a MERGE.
                with held(settled.frame) as frame:
                    yield replace(settled, frame=frame)

    def _met(self, net: NetChanges) -> DataFrame:
        """The new keys of which the target already has rows."""
        there = self.source.spark.read.format("delta").load(self.target)
        for column, (low, high) in net.new_bounds.items():
            # Delta skips files outside the range of the new keys.
            there = there.where(F.col(quoted(column)).between(F.expr(low), F.expr(high)))
        new = net.staged.where((F.col(PLACE) == 1) & F.col(NEW)).select(*_columns(self.key))
        few = F.broadcast(new) if net.new <= BROADCAST_ROWS else new
        return there.select(*_columns(self.key)).join(few, list(self.key), "left_semi")

    def _check(self, rows: DataFrame, net: NetChanges, epoch: int) -> None:
        twins = self._twins(rows)
        count = twins.count()
        if not count:
            return
        comes = net.staged.where(F.col(CHANGE_TYPE).isin(*COMES)).join(twins, list(self.key), "left_semi")
        last = comes.groupBy(*_columns(self.key)).agg(F.max(EPOCH).alias(EPOCH))
        sample = sample_of(last.orderBy(EPOCH, *_columns(self.key)), SAMPLE)
        raise DuplicateKey(
            f"{count} keys have several rows in the source at epoch {epoch}, for example {sample}; changes are applied "
            f"by key, so rows would be lost; {self._way_out(twins)}",
            count=count,
            epoch=epoch,
            sample=sample,
        )

    def _way_out(self, twins: DataFrame) -> str:
        """The way out, which depends on whether the keys are unique again at the source's head."""
        head = self.source.head
        if self._twins(self.source.at(head)).join(twins, list(self.key), "left_semi").limit(1).collect():
            return "delete all rows but one of each key in the source, then clear the task"
        return (
            f"the source is correct again at epoch {head}: clear the task with larger rounds (round_rows, "
            "round_bytes), so that one round has both epochs; if that does not help, because a part of the epoch is "
            f"applied or the hand-off epoch is earlier, run `table-backfill recover {self.target} --epoch {head} "
            "--why REASON`, verify, and repair the keys that differ"
        )

    def _twins(self, rows: DataFrame) -> DataFrame:
        """The keys, named as in the target, that several of these source rows have."""
        counted = rows.groupBy(*_columns(self.source_key)).agg(F.count(F.lit(1)).alias(OWN + "rows"))
        return counted.where(F.col(OWN + "rows") > 1).drop(OWN + "rows").toDF(*self.key)


def _columns(names: Sequence[str]) -> list[Column]:
    return [F.col(quoted(name)) for name in names]
