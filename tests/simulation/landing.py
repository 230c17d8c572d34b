"""A model of a topic and of the table in which it lands: partitions, what each version adds, the ingestion's lag."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache

from airflow_backfill.core.errors import HistoryLost, KafkaLost, OffsetsInvalid
from airflow_backfill.core.kafka.offsets import MAX, Batch, Offsets
from airflow_backfill.core.model.plan import Plan
from airflow_backfill.core.source.view import SourceView
from airflow_backfill.core.splits.partitions import AtOffset
from airflow_backfill.core.state.effect import Landed
from airflow_backfill.core.values.epoch import EpochRange
from tests.core.kafka.topic import Partition
from tests.simulation.source import Rows, Source

FIRST = "topic-1"
SPAN = 10_000
"""Keys of one partition: a record's key is its offset beyond the partition's."""
PACE = 2_000
"""Milliseconds that are said to pass between two versions."""


@cache
def row(partition: int, offset: int) -> tuple[int, int]:
    """A record as a row."""
    return partition * SPAN + offset, (partition * 31 + offset * 7) % 100


def key_of(record: int) -> int:
    """The key of a record where keys are in several partitions."""
    return record * 5 % 11


def place_of(record: int) -> tuple[int, int, int]:
    """By what a record of a key is later than another one: what it says itself, its partition, its offset."""
    partition, offset = divmod(record, SPAN)
    return (partition * 17 + offset * 13) % 40, partition, offset


def last_records(records: Rows) -> tuple[dict[int, int], dict[int, int]]:
    """The last record of each key, of those with a row and of those that delete one. What cannot be decoded is left
    out.
    """
    last: dict[int, int] = {}
    for record in sorted((one for one, value in records.items() if value % 10 != 5), key=place_of):
        last[key_of(record)] = record
    gone = {key: record for key, record in last.items() if records[record] % 10 == 0}
    return {key: record for key, record in last.items() if key not in gone}, gone


def no_rows(values: Iterable[int]) -> tuple[int, int]:
    """How many of the records that ``transform`` leaves out are said to be undecodable, and how many unwanted."""
    counts = Counter(value % 10 for value in values)
    return counts[5], counts[0]


@dataclass
class LandingSource(Source):
    """``keys`` is the number of partitions. Every record that the ingestion has not missed lands, in order, sooner or
    later. The rows of a version are the records that have landed, and those before the first that has.
    """

    topic_id: str = FIRST
    partitions: dict[int, Partition] = field(default_factory=dict)
    added: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """By version: partition and offset of its rows."""
    joined_late: bool = False
    """Whether the ingestion has missed the first records of a partition."""
    noted: bool = False
    """Whether the ingestion keeps notes of how far it is, and may have missed the first records of what it began with.
    """
    notes: dict[int, dict[int, int]] = field(default_factory=dict)
    """By version: the offset of each partition before which all has landed."""
    missed: dict[int, int] = field(default_factory=dict)
    """By partition of those: the offset at which the ingestion began, where that keeps notes."""
    large: int = MAX
    """From this offset on, records are a thousand times as large."""

    def __post_init__(self) -> None:
        self.appends = True
        for number in range(self.keys):
            self.add_partition()
            if self.noted and self.rng.random() < 0.5:
                self.partitions[number].produce(self.rng)
                self.missed[number] = self.partitions[number].ingested = self.partitions[number].end
        self._land([], 0)
        for _ in range(self.rng.randrange(0, 6)):
            self.produce()
        if self.rng.random() < 0.7:
            self.land(0)

    def add_partition(self) -> None:
        self.partitions[len(self.partitions)] = Partition()

    def add_partition_late(self) -> None:
        """The ingestion hears of the partition when it has records already, and never lands those."""
        self.add_partition()
        partition = self.partitions[len(self.partitions) - 1]
        for _ in range(3):
            partition.produce(self.rng)
        partition.ingested = partition.end
        self.joined_late = self.joined_late or bool(partition.records)

    def replace_topic(self) -> None:
        """Deleted and created again: only its id and its records tell."""
        self.topic_id = "topic-2"

    def write(self, now: int) -> None:
        self.produce()
        self.land(now)

    def produce(self) -> None:
        for partition in self.partitions.values():
            if self.rng.random() < 0.7:
                partition.produce(self.rng)

    def land(self, now: int, *, all_of_it: bool = False) -> None:
        """The ingestion commits some of what it has not landed yet; nothing if there is none. ``all_of_it`` also brings
        something of partitions of which nothing has landed, because it joined late.
        """
        rows = []
        landed = {number for some in self.added.values() for number, _ in some}
        for number, partition in self.partitions.items():
            lands = number in landed or partition.between(partition.ingested, partition.end)
            while all_of_it and (partition.open or not (lands or self.noted)):
                partition.produce(self.rng)
                lands = lands or partition.between(partition.ingested, partition.end)
            upto = partition.end if all_of_it else self.rng.randrange(partition.ingested, partition.end + 1)
            rows += [(number, offset) for offset in partition.land(upto)]
        if rows or (self.noted and self._notes() != self.notes[max(self.notes)]):
            self._land(rows, now)

    def repeat(self, now: int) -> None:
        """The ingestion lands again what it had landed: its last commit once more, or rows twice in one commit."""
        version = max(self.added, default=0)
        again = self.added.get(version, [])
        partition = self.rng.choice(sorted(self.partitions))
        fresh = [(partition, offset) for offset in self.partitions[partition].land(self.partitions[partition].end)]
        if again or fresh:
            self._land(self.rng.choice([again + fresh, again + fresh + fresh]), now)

    def expire(self, numbers: Iterable[int]) -> None:
        """Retention takes all but the newest record of these partitions, as far as they have landed in the table that
        may be put back.
        """
        epoch = self.head if self.replaced_at is None else self.replaced_at - 1
        for number in numbers:
            partition = self.partitions[number]
            landed = max(self.kept(number, Offsets(0, MAX), epoch), default=-1)
            partition.expire(max(min(partition.end - 1, landed + 1), 0))

    def _forget(self, start: int) -> None:
        """The ingestion's notes are put back, too: it lands the same records again, otherwise divided."""
        super()._forget(start)
        self.added = {version: rows for version, rows in self.added.items() if version < start}
        self.notes = {version: notes for version, notes in self.notes.items() if version < start}
        for number, partition in self.partitions.items():
            partition.ingested = self.notes[max(self.notes)].get(number, 0)

    def _notes(self) -> dict[int, int]:
        return {number: partition.ingested for number, partition in self.partitions.items()}

    def ingested(self, epoch: int) -> dict[int, int]:
        """What the notes say at a version; sometimes they are forgotten."""
        noted = [version for version in self.notes if version <= epoch]
        return self.notes[max(noted)] if noted and self.rng.random() < 0.8 else {}

    def _land(self, rows: list[tuple[int, int]], now: int) -> None:
        self.added[len(self.versions)] = rows
        self.notes[len(self.versions)] = self._notes()
        landed: dict[int, set[int]] = {number: set() for number in self.partitions}
        for some in self.added.values():
            for number, offset in some:
                landed[number].add(offset)
        content: dict[int, int] = {}
        for number, offsets in landed.items():
            before = min(offsets, default=self.missed.get(number, 0))
            there = {at for at in self.record(number) if at in offsets or at < before}
            content |= dict(row(number, offset) for offset in there)
        self._commit(content, (), rows_changed=len(rows), change=True, now=now)

    def view(self, plan: Plan, after: int) -> SourceView:
        return replace(super().view(plan, after), at=self.versions[-1].commit.timestamp, interval=PACE)

    def record(self, partition: int) -> set[int]:
        """Every offset of a partition that ever was a record."""
        return self.partitions[partition].expired | set(self.partitions[partition].records)

    def sift(self, epochs: EpochRange, known: Mapping[int, AtOffset]) -> Landed:
        fresh: dict[int, set[int]] = {}
        before: dict[int, set[int]] = {}
        repeated = 0
        for version in range(epochs.start, epochs.stop):
            for partition, offset in self._rows(version):
                position = known.get(partition)
                if position is not None and version <= position.epoch:
                    continue
                landed = -1 if position is None or position.split.landed is None else position.split.landed
                if partition not in before:
                    at = position.epoch if position is not None else epochs.start - 1
                    before[partition] = self._before(partition, at)
                if offset in fresh.get(partition, set()) or offset in before[partition]:
                    repeated += 1
                elif offset <= landed:
                    raise OffsetsInvalid(f"offset {offset} of partition {partition} lands after {landed}")
                else:
                    fresh.setdefault(partition, set()).add(offset)
        batches = {partition: Batch(min(some), max(some), len(some)) for partition, some in fresh.items()}
        return Landed(batches, repeated)

    def taken(self, landed: Mapping[int, Offsets], after: int, through: int) -> list[tuple[int, int]]:
        """The rows of these offsets in versions after ``after``."""
        rows = [record for version in range(after + 1, through + 1) for record in self._rows(version)]
        return [row(*record) for record in rows if record[0] in landed and record[1] in landed[record[0]]]

    def fetch(self, partition: int, offsets: Offsets) -> list[int]:
        at = self.partitions[partition]
        if at.start > offsets.start:
            what = f"offset {offsets.start} of partition {partition} is gone"
            raise KafkaLost(what, partition=partition, wanted=offsets.start, have=at.start)
        return at.between(offsets.start, min(offsets.stop, at.end))

    def size(self, offset: int) -> int:
        """The bytes of a record."""
        return 1000 if offset >= self.large else 1

    def kept(self, partition: int, offsets: Offsets, epoch: int) -> list[int]:
        """What of these offsets has landed at a version."""
        return sorted(offset for offset in self._before(partition, epoch) if offset in offsets)

    def _before(self, partition: int, epoch: int) -> set[int]:
        versions = range(min(epoch, self.head) + 1)
        return {offset for v in versions for number, offset in self.added.get(v, []) if number == partition}

    def _rows(self, version: int) -> list[tuple[int, int]]:
        if version < self.earliest:
            raise HistoryLost(f"epoch {version} is gone", version=version)
        return self.added.get(version, [])


def some_topic(rng: random.Random) -> LandingSource:
    return LandingSource(rng, keys=rng.choice([1, 2, 3, 5]), noted=rng.random() < 0.3)
