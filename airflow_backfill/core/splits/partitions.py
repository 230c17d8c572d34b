"""Splits as partitions of a topic, for a build of its history and of later landed records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from airflow_backfill.core.errors import RecordInvalid
from airflow_backfill.core.kafka.progress import history_done
from airflow_backfill.core.kafka.reach import Reach
from airflow_backfill.core.kafka.sizing import RECORD_BYTES
from airflow_backfill.core.kafka.split import Split
from airflow_backfill.core.kafka.state import Backfilling, Finished
from airflow_backfill.core.kafka.state import rank as rank_of_state
from airflow_backfill.core.splits.position import Position
from airflow_backfill.core.splits.splits import Splits


@dataclass(frozen=True, slots=True)
class AtOffset(Position):
    """The landing table is applied through ``epoch``, and the partition's history as far as ``split`` says."""

    epoch: int
    split: Split

    @property
    def rank(self) -> tuple[int, ...]:
        return (self.epoch, -1, self.split.scanned, rank_of_state(self.split.state), self.split.end)

    @property
    def complete(self) -> int | None:
        return self.epoch if isinstance(self.split.state, Finished) else None

    @property
    def newest_epoch(self) -> int:
        return self.epoch

    @property
    def begun(self) -> bool:
        return self.split.read > 0

    @property
    def read(self) -> bool:
        return not isinstance(self.split.state, Backfilling)

    @property
    def unknown(self) -> bool:
        return self.split == Split(self.split.partition)

    def may_become(self, after: Position) -> bool:
        if not isinstance(after, AtOffset):
            return False
        self.split.check_successor(after.split)
        return True

    def to_json(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "partition": self.split.to_json()}

    @staticmethod
    def from_json(value: dict[str, Any]) -> AtOffset | None:
        match value:
            case {"epoch": int(epoch), "partition": dict(split), **more} if not more and epoch >= 0:
                return AtOffset(epoch, Split.from_json(split))
        return None


@dataclass(frozen=True, slots=True)
class Partitions(Splits):
    """The topic at the time of the plan. Split i is partition i. Partitions that appear later are in no plan."""

    landing: ClassVar[bool] = True
    recoverable: ClassVar[bool] = False
    grows: ClassVar[bool] = True

    topic_id: str
    """Kafka's id of the topic. A topic that is created again under the same name has another id."""
    splits: tuple[Split, ...]
    rules: str
    """The rules by which records become rows. They are fixed for a build."""
    compacted: bool = False
    """Whether Kafka compacts the topic. Then an offset without a record is no sign of a loss."""

    def __len__(self) -> int:
        return len(self.splits)

    @property
    def rows(self) -> int:
        """Maximum number of records to read; some offsets may hold none."""
        return sum(split.left for split in self.splits)

    @property
    def bytes(self) -> int:
        """An estimate. The size of records is unknown before they are read."""
        return self.rows * RECORD_BYTES

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """``rules`` ends with them."""
        _, _, fields = self.rules.partition(": struct<")
        found, start, depth = [], 0, 0
        for place, letter in enumerate(fields):
            depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(letter, 0)
            if depth < 0 or (letter == "," and depth == 0):
                name, _, kind = fields[start:place].partition(":")
                found.append((name, kind))
                start = place + 1
        return tuple(found)

    def reaches(self, positions: Iterable[Position], *, alone: bool) -> Mapping[int, Reach]:
        known = splits_of(position for position in positions if not position.unknown)
        return {n: Reach.of(s, self.splits[n] if n < len(self) else None, alone=alone) for n, s in known.items()}

    @property
    def sound(self) -> bool:
        """Whether all partitions are present, in order, and none has been read."""
        places = all(split.partition == place and split.read == 0 for place, split in enumerate(self.splits))
        return bool(self.topic_id) and bool(self.splits) and bool(self.rules) and places

    def first(self, epoch: int) -> tuple[Position, ...]:
        return tuple(AtOffset(epoch, split) for split in self.splits)

    def read(self, positions: tuple[Position, ...]) -> bool:
        """Whether the history of all planned partitions is read. Later partitions may also be read with the log."""
        return history_done(range(len(self)), splits_of(positions[: len(self)]))

    def widened(self, positions: tuple[Position, ...], count: int, epoch: int) -> tuple[Position, ...]:
        """The state of a partition that appeared is unknown at first."""
        missing = range(len(positions), count)
        return positions + tuple(AtOffset(epoch, Split(partition)) for partition in missing)

    def counts(self, split: int, position: Position) -> Mapping[str, int]:
        if not isinstance(position, AtOffset):
            return {}
        part = position.split
        return {"records read": part.read, "rows of them": part.written, "records left": part.left}

    def check_standing(self, positions: tuple[Position, ...], epoch: int) -> None:
        """Each partition has its own epoch, at or after the pinned one."""
        for partition, position in enumerate(positions):
            fits = isinstance(position, AtOffset) and position.split.partition == partition and position.epoch >= epoch
            if not fits:
                raise RecordInvalid(f"partition {partition} cannot stand at {position}", split=partition)

    def to_json(self) -> dict[str, Any]:
        return {
            "topic": self.topic_id,
            "partitions": [split.to_json() for split in self.splits],
            "rules": self.rules,
            **({"compacted": True} if self.compacted else {}),
        }

    @staticmethod
    def from_json(value: dict[str, Any]) -> Partitions | None:
        if "partitions" not in value:
            return None
        splits = tuple(Split.from_json(split) for split in value["partitions"])
        return Partitions(value["topic"], splits, value["rules"], value.get("compacted", False))


def splits_of(positions: Iterable[Position]) -> Mapping[int, Split]:
    """The state of each partition, by its number."""
    return {p.split.partition: p.split for p in positions if isinstance(p, AtOffset)}


def held(positions: Iterable[Position]) -> dict[int, int]:
    """By partition: the greatest offset in a target at these positions; -1 for none."""
    return {n: split.held for n, split in splits_of(positions).items()}
