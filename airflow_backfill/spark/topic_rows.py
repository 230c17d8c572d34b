"""What a target has to hold of a topic, told anew from the topic and its landing table.

Nothing of what a build has read is used but where the seams are, which its positions say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_backfill.core.errors import VerificationFailed
from airflow_backfill.core.kafka.offsets import Offsets
from airflow_backfill.core.kafka.partitions import Partitions
from airflow_backfill.core.kafka.split import Split
from airflow_backfill.core.position import AtOffset, Position
from airflow_backfill.spark.dead_letters import good
from airflow_backfill.spark.history import History
from airflow_backfill.spark.landing_table import RAW
from airflow_backfill.spark.last_values import last_per_key


@dataclass(frozen=True)
class TopicRows:
    """Of the build of ``history``, which stands at ``positions``."""

    history: History
    positions: tuple[Position, ...]

    def target(self, epoch: int) -> DataFrame:
        """What the target has to hold at an epoch. Errors of ``records``."""
        transform, rows = self.history.transform, self.records(epoch)
        key = transform.target_key(self.history.plan.spec.key)
        return last_per_key(rows, transform, key, self.history.order).rows() if key else transform.apply(rows)

    def records(self, epoch: int) -> DataFrame:
        """All decoded records of that: Kafka's up to each seam, and what landed beyond it. KafkaLost if Kafka does not
        have them any more.
        """
        if self._read:
            self.history.topic.check_there(self._read)
        return self._decoded(self._read, epoch)

    def rest(self, epoch: int) -> DataFrame:
        """Those of them that there still are."""
        return self._decoded(self._there, epoch)

    @property
    def trimmed(self) -> bool:
        """Whether retention has taken some of the history since it was read."""
        return self._there != self._read

    @cached_property
    def gone(self) -> int:
        """How many of the records that were read are not in Kafka any more."""
        read, topic = sum(self._splits[n].written for n in self._read), self.history.topic
        with topic.coded():
            return read - (topic.read(self._there).count() if self._there else 0)

    def written(self, epoch: int) -> int:
        """Of how many records the target was made: those that were read up to each seam, and what landed beyond it."""
        landed = 0 if self._alone else self._beyond(epoch).count()
        return landed + sum(split.written for split in self._splits.values())

    def check_covered(self, epoch: int) -> None:
        """VerificationFailed if a record that Kafka still has, beyond a seam and before what landed last, never landed:
        an ingestion that began too late leaves such a hole. Errors of ``TopicRecords.check_there``.
        """
        if self._alone:
            return
        wanted, topic = {}, self.history.topic
        for n, log in topic.check_there({}).items():
            landed = self._splits[n].landed if n in self._splits else None
            start, stop = max(self._seams.get(n, 0) + 1, log.start), 0 if landed is None else min(landed + 1, log.end)
            if start < stop:
                wanted[n] = Offsets(start, stop)
        if not wanted:
            return
        place = ["partition", "offset"]
        with topic.coded():
            missing = topic.read(wanted).select(place).join(self._beyond(epoch).select(place), place, "left_anti")
            groups = missing.groupBy("partition").agg(F.min("offset"), F.max("offset"), F.count("offset")).collect()
        if groups:
            partition, first, last, count = min(groups)
            raise VerificationFailed(
                f"{sum(group[3] for group in groups)} records are in Kafka and neither in the history nor in the "
                f"landing table, {count} of them in partition {partition} between the offsets {first} and {last}: "
                "history and landing table leave a hole between them",
                epoch=epoch,
                partition=partition,
                first=first,
                last=last,
                count=count,
            )

    @property
    def _alone(self) -> bool:
        return self.history.plan.spec.source is None

    @cached_property
    def _splits(self) -> dict[int, Split]:
        """By partition."""
        return {p.split.partition: p.split for p in self.positions if isinstance(p, AtOffset)}

    @cached_property
    def _read(self) -> dict[int, Offsets]:
        """What of each partition came from Kafka; of one that the plan does not know, all there is up to its seam."""
        found = {}
        for n, split in self._splits.items():
            if split.cut is not None and split.read:
                planned = self._planned(n)
                first = self.history.topic.broker.ask().logs[n].start if planned is None else planned.scanned + 1
                found[n] = Offsets(first, split.cut + 1)
        return found

    @cached_property
    def _there(self) -> dict[int, Offsets]:
        """What the logs still reach of that."""
        logs = self.history.topic.check_there({}) if self._read else {}
        starts = {n: max(some.start, logs[n].start) for n, some in self._read.items()}
        return {n: Offsets(starts[n], some.stop) for n, some in self._read.items() if starts[n] < some.stop}

    @cached_property
    def _seams(self) -> dict[int, int]:
        """The offset beyond which a partition's rows come from the landing table, from what it got since the plan."""
        seams = {}
        for n, split in self._splits.items():
            planned = self._planned(n)
            landed = planned.landed if planned is not None else None
            seams[n] = max(-1 if split.cut is None else split.cut, -1 if landed is None else landed)
        return seams

    def _planned(self, partition: int) -> Split | None:
        splits = self.history.plan.splits
        assert isinstance(splits, Partitions)
        return splits.splits[partition] if partition < len(splits) else None

    def _beyond(self, epoch: int) -> DataFrame:
        return self.history.landing.beyond(self._seams, epoch)

    def _decoded(self, ranges: Mapping[int, Offsets], epoch: int) -> DataFrame:
        frames = [self.history.topic.read(ranges)] if ranges else []
        if not self._alone:
            frames.append(self._beyond(epoch))
        raw = reduce(DataFrame.union, frames or [self.history.spark.createDataFrame([], RAW)])
        return good(self.history.records.decode(raw))
