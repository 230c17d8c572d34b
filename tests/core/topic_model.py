"""A build of a topic on models of its broker, its landing table and its target: every offset holds a record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from airflow_backfill.core.kafka.offsets import Batch, Offsets
from airflow_backfill.core.kafka.opening import Log, opened
from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.core.splits.partitions import AtOffset, Partitions
from airflow_backfill.core.state import effect as fx
from airflow_backfill.core.values.commit import FileTotals
from airflow_backfill.core.values.epoch import EpochRange
from tests.core.model_target import Model

SPEC = BackfillSpec.parse(
    {
        "name": "clicks",
        "source": "/lake/clicks",
        "target": "/marts/clicks",
        "strategy": "source",
        "topic": {"name": "clicks"},
    }
)
RULES = (
    "key bytes@1, value json@2: struct<partition:int,offset:bigint,headers:array<struct<key:string,value:binary>>,"
    "page:string,paid:decimal(10,2)>"
)


class TopicModel(Model):
    """Partition i of the topic has the offsets below ``ends[i]``; none of them had landed when it was planned."""

    oldest: Mapping[int, int] = MappingProxyType({})
    """By partition: when its first unread record was written, as the brokers answer."""
    kept_ms: int | None = None

    def __init__(self, *ends: int) -> None:
        self.ends = list(ends)
        self.landed: dict[int, dict[int, Offsets]] = {}
        """By epoch of the landing table, then by partition."""
        super().__init__((), spec=SPEC)

    def produce(self, partition: int, records: int) -> None:
        """A partition that is not there yet appears."""
        self.ends += [0] * (partition + 1 - len(self.ends))
        self.ends[partition] += records

    def land(self, partition: int, start: int, stop: int) -> None:
        rows = stop - start
        self._commit_source("STREAMING UPDATE", added=FileTotals(1, rows, rows), data_change=True)
        self.landed[self.source.head] = {partition: Offsets(start, stop)}

    def landed_before(self, partition: int) -> int:
        """The end of what has landed of a partition."""
        return max((new[partition].stop for new in self.landed.values() if partition in new), default=0)

    def written(self) -> Counter[tuple[int, int]]:
        """How often each offset of each partition is in the target."""
        found: Counter[tuple[int, int]] = Counter()
        for work in self.works:
            if isinstance(work, fx.TakeOffsets):
                for ranges in (work.fetched, work.landed):
                    found.update((n, offset) for n, some in ranges.items() for offset in range(some.start, some.stop))
        return found

    def everything(self) -> Counter[tuple[int, int]]:
        """Every offset of the topic once."""
        return Counter((n, offset) for n, end in enumerate(self.ends) for offset in range(end))

    def fetches(self) -> list[Mapping[int, Offsets]]:
        """What was asked of Kafka, in order."""
        return [effect.ranges for effect in self.effects if isinstance(effect, fx.FetchRecords)]

    def _cut(self, *_: object) -> Partitions:
        return Partitions("id", tuple(opened(n, log, None, None) for n, log in self._logs().items()), RULES)

    def _logs(self) -> dict[int, Log]:
        return {n: Log(0, end) for n, end in enumerate(self.ends)}

    def _look(self, effect: fx.Effect) -> Any:
        match effect:
            case fx.AskBroker():
                return fx.Topic("id", self._logs(), self.oldest, self.kept_ms)
            case fx.ReadLanded(epochs, known):
                return fx.Landed(self._sifted(epochs, known))
            case fx.FetchRecords(ranges):
                batches = {n: Batch(some.start, some.last, len(some)) for n, some in ranges.items()}
                return fx.Fetched(batches, sum(map(len, ranges.values())))
            case fx.DecodeRecords():
                return fx.Decoded(0, 0)
        return super()._look(effect)

    def _sifted(self, epochs: EpochRange, known: Mapping[int, AtOffset]) -> dict[int, Batch]:
        found: dict[int, Batch] = {}
        for epoch in range(epochs.start, epochs.stop):
            for n, new in self.landed.get(epoch, {}).items():
                if n not in known or epoch > known[n].epoch:
                    least, count = (found[n].least, found[n].count) if n in found else (new.start, 0)
                    found[n] = Batch(least, new.last, count + len(new))
        return found

    def _rows(self, work: fx.Work) -> tuple[FileTotals, dict[str, int]]:
        if not isinstance(work, fx.TakeOffsets):
            return super()._rows(work)
        rows = sum(len(some) for ranges in (work.fetched, work.landed) for some in ranges.values())
        return FileTotals(1, rows, rows), {"numOutputRows": rows}
