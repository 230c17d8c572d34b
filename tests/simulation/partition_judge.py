"""The invariants of a topic's partitions, with a reader of their records of its own.

A partition that still reads its history holds Kafka's records as far as they are covered, one that has stopped those up
to its seam, and one that is finished everything that has landed at its epoch: each record once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_backfill.core.kafka.offsets import MAX, Offsets
from tests.simulation.invariant import WHOLE, must
from tests.simulation.landing import LandingSource, no_rows, row
from tests.simulation.target import Bag

if TYPE_CHECKING:
    from tests.simulation.world import World

RANK = {"backfilling": 0, "catching_up": 1, "finished": 2}
COUNTERS = ("read", "written", "scanned", "end")


@dataclass
class PartitionJudge:
    world: World
    planned: int = 0
    """How many partitions there were."""
    known: dict[int, tuple[int, dict[str, Any]]] = field(default_factory=dict)
    """Per partition: its epoch and its split, as the furthest record says them."""
    no_rows: tuple[int, ...] = (0, 0)
    """What the records have counted: undecodable, unwanted."""
    sealed: bool = False
    begins: dict[int, int] = field(default_factory=dict)
    """Per partition: the log's start when it was first heard of."""
    taken: dict[int, int] = field(default_factory=dict)
    """The records that the target has taken, as of the last count."""

    def plan(self, pinned: int, splits: list[dict[str, Any]]) -> None:
        self.planned = len(splits)
        self.known = {split["partition"]: (pinned, split) for split in splits}
        self.begins = {partition: self._begin(partition, pinned) for partition in self.known}

    def _begin(self, partition: int, pinned: int) -> int:
        """The first offset that Kafka has, or had when it landed."""
        source = self._source
        landed = source.kept(partition, Offsets(0, MAX), pinned)
        return min([*landed, source.partitions[partition].start])

    def move(self, positions: list[Any], phase: str, writer: str) -> None:
        """Take over what a record says, of which some may be older than what is known. What its writer has read of a
        new partition may have expired since.
        """
        process = self.world.process(writer)
        starts = process.starts if process is not None else {}
        self.sealed = phase not in ("snapshot", "cancelled")
        for partition, (epoch, split) in enumerate((p["epoch"], p["partition"]) for p in positions):
            must(split["partition"] == partition, f"partition {split['partition']} in the place of {partition}")
            before = self.known.get(partition)
            if before is None or _rank(epoch, split) > _rank(*before):
                if before is not None:
                    self._moved(before[1], split)
                else:
                    self.begins[partition] = starts.get(partition, self._source.partitions[partition].start)
                    self._appeared(split)
                self.known[partition] = (epoch, split)
                self._counted(split)

    @property
    def grown(self) -> bool:
        """Whether the topic has partitions that the plan does not know."""
        return len(self._source.partitions) > self.planned

    @property
    def newest(self) -> int:
        """No record can have been written from a later epoch on."""
        return max(epoch for epoch, _ in self.known.values())

    @property
    def progress(self) -> dict[int, tuple[int, int]]:
        """As of splits: (epoch, all of it) of a partition that is finished, else (-1, what is covered). Of one that was
        only named, by a later one's record, nothing is said once the others are handed over.
        """
        return {
            partition: (epoch, WHOLE) if split["state"][0] == "finished" else (-1, split["scanned"] + 1)
            for partition, (epoch, split) in self.known.items()
            if not self.sealed or split["state"] != ["backfilling", None] or split["end"]
        }

    def count(self, work: dict[str, int]) -> None:
        """Every record that was taken is a row, or counted as none: once, whoever took it."""
        self.no_rows = tuple(
            before + work.get(name, 0)
            for before, name in zip(self.no_rows, ("undecodable_rows", "unwanted_rows"), strict=True)
        )
        self.taken = self._taken()
        must(self.no_rows == no_rows(self.taken.values()), f"{self.no_rows} records were counted as no rows")

    def content(self) -> Bag:
        """What the target holds, as of the last count."""
        return self.world.made(self.taken)

    def _taken(self) -> dict[int, int]:
        source = self._source
        rows: dict[int, int] = {}
        for partition, (epoch, split) in self.known.items():
            upto = {"backfilling": split["scanned"], "catching_up": split["cut"], "finished": WHOLE}
            last = upto[split["state"][0]]
            first = 0 if split["state"][0] == "finished" and split["cut"] is None else self.begins[partition]
            records = dict(row(partition, at) for at in source.record(partition) if first <= at <= last)
            if last == WHOLE:
                records = {key: value for key, value in records.items() if key in source.versions[epoch].rows}
            rows |= records
        return rows

    def _appeared(self, split: dict[str, Any]) -> None:
        """Keys without an order stay in their partitions; one that is only named holds nothing."""
        holds = split["state"] != ["backfilling", None] or split["read"] > 0
        must(self.world.ordered or not (self.world.keyed and holds), "keys without an order have moved")

    def _moved(self, before: dict[str, Any], split: dict[str, Any]) -> None:
        name = f"partition {split['partition']}"
        must(RANK[split["state"][0]] >= RANK[before["state"][0]], f"{name} went back to {split['state']}")
        for counter in COUNTERS:
            must(split[counter] >= before[counter], f"{counter} of {name} fell to {split[counter]}")
        must(before["cut"] in (None, split["cut"]), f"the seam of {name} moved")

    def _counted(self, split: dict[str, Any]) -> None:
        """Rows read are the records of what was covered."""
        first, partition = self.begins[split["partition"]], split["partition"]
        found = sum(first <= offset <= split["scanned"] for offset in self._source.record(partition))
        if split["read"]:
            must(split["read"] == found, f"read {split['read']} of partition {partition}, covered {found}")

    @property
    def _source(self) -> LandingSource:
        assert isinstance(self.world.source, LandingSource)
        return self.world.source


def _rank(epoch: int, split: dict[str, Any]) -> tuple[int, int, int]:
    return epoch, split["scanned"], RANK[split["state"][0]]
