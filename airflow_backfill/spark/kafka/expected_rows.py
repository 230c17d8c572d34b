"""The rows that a target must hold of a topic, computed again from the topic and its landing table.

Of the build only its positions are used: they say where the seams are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_backfill.core.errors import KafkaLost, VerificationFailed
from airflow_backfill.core.kafka.offsets import Offsets
from airflow_backfill.core.kafka.opening import Log
from airflow_backfill.core.kafka.split import Split
from airflow_backfill.core.splits.partitions import AtOffset, Partitions
from airflow_backfill.core.splits.position import Position
from airflow_backfill.spark.kafka.dead_letters import dead_letters, good
from airflow_backfill.spark.kafka.landed_offsets import LandedOffsets
from airflow_backfill.spark.kafka.landing_table import RAW
from airflow_backfill.spark.kafka.last_values import last_per_key
from airflow_backfill.spark.kafka.topic_source import History
from airflow_backfill.spark.session.failure import lost_history_named

AHEAD = 4
"""The next try of a proof reads nothing within this many times the distance by which retention has just moved."""


@dataclass(frozen=True)
class TopicRows:
    """The expected rows of the build of ``history`` at ``positions``."""

    history: History
    positions: tuple[Position, ...]
    floors: Mapping[int, int] = field(default_factory=dict)
    """By partition: nothing before this offset is read, because retention may delete it meanwhile."""

    def target(self, epoch: int) -> DataFrame:
        """The rows that the target must hold at an epoch. Errors as in ``records``."""
        transform, rows = self.history.transform, self.records(epoch)
        key = transform.target_key(self.history.plan.spec.key)
        return last_per_key(rows, transform, key, self.history.order).rows() if key else transform.apply(rows)

    def whole(self, epoch: int) -> DataFrame:
        """The same; KafkaLost if a record that it needs is gone."""
        short = self.short(epoch)
        if short:
            floor = self._splits[short[0]].floor
            raise KafkaLost(
                f"partition {short[0]}: Kafka no longer has the records before offset {floor}, and the landing table "
                "does not have all of them, so the rows cannot be compared; plan again with on_existing='restart'",
                partition=short[0],
                have=floor,
            )
        if self._last_gone(epoch):
            raise KafkaLost(
                f"{self.gone(epoch)} records that were read are no longer in Kafka, and one of them may be the last of "
                "its key, so the rows cannot be compared; plan again with on_existing='restart'"
            )
        return self.target(epoch)

    def doubtful(self, epoch: int) -> bool:
        """Whether a record that is gone may tell a row."""
        if self.history.plan.spec.key and self.short(epoch):
            return True
        return self._last_gone(epoch)

    def _last_gone(self, epoch: int) -> bool:
        """The same where no partition is short. Compaction keeps the last record of a key by offset: with ``order``
        another one may be the last, and if it is undecodable, an earlier one has told the row.
        """
        return self.gone(epoch) > 0 and (
            not self.history.plan.spec.key or self.history.order is not None or self._undecodable(epoch)
        )

    def _undecodable(self, epoch: int) -> bool:
        """Whether a record that is left is undecodable."""
        return not dead_letters(self._decoded(self._there, epoch)).isEmpty()

    def short(self, epoch: int) -> list[int]:
        """The partitions with records that were read, that Kafka has lost, and that the landing table may not have."""
        kept = self._kept_rows(epoch)
        if kept is None:
            return sorted(self._kept)
        numbers = F.min("offset").alias("least"), F.count(F.lit(1)).alias("rows")
        with lost_history_named():
            rows = kept.groupBy("partition").agg(*numbers).collect()
        found = {row["partition"]: row for row in rows}
        # In a compacted topic, an offset after the first landed one need not be a record.
        return [
            n
            for n, some in sorted(self._kept.items())
            if n not in found
            or (found[n]["least"] > some.start if self._partitions.compacted else found[n]["rows"] < len(some))
        ]

    def records(self, epoch: int) -> DataFrame:
        """All decoded records at an epoch: those read up to each seam, and those landed after it. KafkaLost if Kafka
        no longer has them.
        """
        if self._read:
            self.history.topic.check_there(self._read)
        return good(self._decoded(self._read, epoch))

    def rest(self, epoch: int) -> DataFrame:
        """Those of the same records that Kafka and the landing table still have."""
        return good(self._decoded(self._there, epoch))

    @property
    def trimmed(self) -> bool:
        """Whether retention has deleted a part of the history since it was read."""
        return self._there != self._read

    def gone(self, epoch: int) -> int:
        """Number of records that were read from Kafka, and that Kafka no longer has."""
        read = sum(self._splits[n].written for n in self._read.keys() | self._kept.keys())
        kept = self._kept_rows(epoch)
        return read - (0 if kept is None else kept.count()) - self._left

    @cached_property
    def _left(self) -> int:
        return self.history.topic.read(self._there).count() if self._there else 0

    @property
    def lost(self) -> int:
        """Number of offsets of the history that were skipped as lost."""
        return sum(split.lost for split in self._splits.values())

    def written(self, epoch: int) -> int:
        """Number of records that the build took: those read up to each seam, and those landed after it."""
        landed = 0 if self._alone else self._beyond(epoch).count()
        return landed + sum(split.written for split in self._splits.values())

    def check_covered(self, epoch: int) -> None:
        """VerificationFailed if Kafka has a record between a seam and the last landed offset that never landed. An
        ingestion that began too late leaves such a hole. Errors as in ``LandedOffsets.check``.
        """
        if self._alone:
            return
        landing, both = self.history.landing, LandedOffsets(self.history.topic, self._partitions.compacted)
        runs = both.check(self._between, lambda some: landing.places(some, epoch))
        if runs:
            run = runs[0]
            raise VerificationFailed(
                f"{sum(each.count for each in runs)} records are in Kafka but neither in the history nor in the "
                f"landing table, {run.count} of them in partition {run.partition} from offset {run.first} to "
                f"{run.last}: offsets are missing between the history and the landing table; land these records, then "
                "plan again with on_existing='restart'",
                epoch=epoch,
                partition=run.partition,
                first=run.first,
                last=run.last,
                count=run.count,
            )

    def overtaken(self) -> dict[int, int]:
        """The floors for another try, if retention has deleted records that this one reads; else empty. Retention may
        move further meanwhile, so the floors lie ``AHEAD`` times the distance ahead.
        """
        logs, floors = self.history.topic.check_there({}), dict(self.floors)
        for some in (self._there, {} if self._alone else self._between):
            for n, offsets in some.items():
                came = logs[n].start - offsets.start
                if came > 0:
                    floors[n] = max(floors.get(n, 0), logs[n].start + AHEAD * came)
        return floors if floors != self.floors else {}

    @cached_property
    def _logs(self) -> Mapping[int, Log]:
        return self.history.topic.check_there({})

    @cached_property
    def _begins(self) -> dict[int, int]:
        """By partition: the first offset to read from Kafka."""
        return {n: max(log.start, self.floors.get(n, 0)) for n, log in self._logs.items()}

    @cached_property
    def _between(self) -> dict[int, Offsets]:
        """By partition: the offsets after the seam, up to the last landed one, that Kafka still has."""
        found = {}
        for n, log in self._logs.items():
            landed = self._splits[n].landed if n in self._splits else None
            start = max(self._seams.get(n, 0) + 1, self._begins[n])
            stop = 0 if landed is None else min(landed + 1, log.end)
            if start < stop:
                found[n] = Offsets(start, stop)
        return found

    @property
    def _alone(self) -> bool:
        return self.history.plan.spec.source is None

    @cached_property
    def _splits(self) -> dict[int, Split]:
        """By partition."""
        return {p.split.partition: p.split for p in self.positions if isinstance(p, AtOffset)}

    @cached_property
    def _history(self) -> dict[int, Offsets]:
        """By partition: the offsets that were read. A partition that the plan does not know is read from its start."""
        found = {}
        for n, split in self._splits.items():
            if split.cut is not None and split.read:
                planned, first = self._planned(n), 0
                if planned is not None:
                    first = planned.scanned + 1
                elif not split.floor:
                    first = self.history.topic.broker.ask().logs[n].start
                found[n] = Offsets(first, split.cut + 1)
        return found

    @cached_property
    def _read(self) -> dict[int, Offsets]:
        """The part of the history that came from Kafka."""
        starts = {n: max(some.start, self._splits[n].floor) for n, some in self._history.items()}
        return {n: Offsets(starts[n], some.stop) for n, some in self._history.items() if starts[n] < some.stop}

    @cached_property
    def _kept(self) -> dict[int, Offsets]:
        """The part of the history that Kafka has lost: only the landing table can have it."""
        stops = {n: min(some.stop, self._splits[n].floor) for n, some in self._history.items()}
        return {n: Offsets(some.start, stops[n]) for n, some in self._history.items() if some.start < stops[n]}

    def _kept_rows(self, epoch: int) -> DataFrame | None:
        return None if self._alone or not self._kept else self.history.landing.within(self._kept, epoch)

    @cached_property
    def _there(self) -> dict[int, Offsets]:
        """The part of ``_read`` that Kafka still has, at or above the floors."""
        starts = {n: max(some.start, self._begins[n]) for n, some in self._read.items()}
        return {n: Offsets(starts[n], some.stop) for n, some in self._read.items() if starts[n] < some.stop}

    @cached_property
    def _seams(self) -> dict[int, int]:
        """By partition: the seam. Rows with greater offsets come from the landing table."""
        seams = {}
        for n, split in self._splits.items():
            planned = self._planned(n)
            landed = planned.landed if planned is not None else None
            seams[n] = max(-1 if split.cut is None else split.cut, -1 if landed is None else landed)
        return seams

    def _planned(self, partition: int) -> Split | None:
        splits = self._partitions
        return splits.splits[partition] if partition < len(splits) else None

    @property
    def _partitions(self) -> Partitions:
        splits = self.history.plan.splits
        assert isinstance(splits, Partitions)
        return splits

    @cached_property
    def _may_be_compacted(self) -> bool:
        """Whether Kafka compacts the topic now, as far as it says, or did when it was planned."""
        return self._partitions.compacted or self.history.topic.broker.retention().compacted is not False

    def _beyond(self, epoch: int) -> DataFrame:
        return self.history.landing.beyond(self._seams, epoch)

    def _decoded(self, ranges: Mapping[int, Offsets], epoch: int) -> DataFrame:
        frames = [self.history.topic.read(ranges)] if ranges else []
        kept = self._kept_rows(epoch)
        if kept is not None:
            frames.append(kept)
        if not self._alone:
            frames.append(self._beyond(epoch))
            if ranges and self.history.plan.spec.key and self._may_be_compacted:
                lost = self.history.compacted_away(ranges, epoch)
                frames += [] if lost is None else [lost]
        raw = reduce(DataFrame.union, frames or [self.history.spark.createDataFrame([], RAW)])
        return self.history.records.decode(raw)
