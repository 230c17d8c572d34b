"""Keys that several rows of the source seem to have: suspected by changes and target, judged by the source.

Changes are applied by key, so of a key that is there twice a row would be lost, or one too many would stay. A key is
suspected if its changes contradict each other (see ``net_change``), or if rows of it come that the target has already.
What is true then is read from the source as it is at the end of the epochs: a key that has one row there at most, since
it was put right meanwhile, gets exactly that. Another one is an error before anything is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from airflow_backfill.core.errors import DuplicateKey
from airflow_backfill.spark.session.failure import lost_history_named
from airflow_backfill.spark.session.staged import held
from airflow_backfill.spark.source.changes import CHANGE_TYPE, COMES, EPOCH, shown
from airflow_backfill.spark.source.source import Source
from airflow_backfill.spark.target_table.net_change import NEW, PLACE, RECOVER, REPEATED, NetChanges
from airflow_backfill.spark.transform.transform import OWN, Transform, quoted

if TYPE_CHECKING:
    pass

SAMPLE = 5
BROADCAST_ROWS = 1_000_000
"""New keys up to this number are taken to the target's keys, and not both to another place."""


@dataclass(frozen=True)
class RepeatedKeys:
    """Looks for repeated keys in the changes of one build."""

    source: Source
    target: str
    transform: Transform
    source_key: Sequence[str]

    @property
    def key(self) -> Sequence[str]:
        """The columns of the target."""
        return self.transform.target_key(self.source_key)

    @contextmanager
    def settled(self, net: NetChanges, epoch: int) -> Iterator[NetChanges]:
        """The changes up to ``epoch``, with what the source says there in place of the suspected keys', for as long as
        a block lasts. Raises DuplicateKey if one of them has several rows there.
        """
        if not net.repeated and not (net.new and self._met(net).limit(1).collect()):
            yield net
            return
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
        """The new keys that the target has rows of."""
        there = self.source.spark.read.format("delta").load(self.target)
        for column, (low, high) in net.new_bounds.items():
            # Files that cannot hold one of the keys are not opened; if all keys lie beyond the target's, none is.
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
        sample = [shown(row) for row in last.orderBy(EPOCH, *_columns(self.key)).limit(SAMPLE).collect()]
        raise DuplicateKey(
            f"{count} keys have several rows in the source at epoch {epoch}, for example {sample}: changes are applied "
            f"by key, so that rows would be lost; {self._way_out(twins)}",
            count=count,
            epoch=epoch,
            sample=sample,
        )

    def _way_out(self, twins: DataFrame) -> str:
        """What helps now: at the source's head the keys are right by now, or are not."""
        head = self.source.head
        if self._twins(self.source.at(head)).join(twins, list(self.key), "left_semi").limit(1).collect():
            return "delete all rows but one of each key in the source, and clear the task"
        return (
            f"the source is right again at epoch {head}: clear the task with larger rounds (round_rows, round_bytes), "
            "so that one of them holds both; where that does not help, because a part of the epoch is applied or the "
            f"hand-off epoch comes before, say that the target stands there ({RECOVER} {self.target} --epoch {head}), "
            "verify, and repair what differs"
        )

    def _twins(self, rows: DataFrame) -> DataFrame:
        """The keys, named as in the target, of several of these rows of the source."""
        counted = rows.groupBy(*_columns(self.source_key)).agg(F.count(F.lit(1)).alias(OWN + "rows"))
        return counted.where(F.col(OWN + "rows") > 1).drop(OWN + "rows").toDF(*self.key)


def _columns(names: Sequence[str]) -> list[Column]:
    return [F.col(quoted(name)) for name in names]
