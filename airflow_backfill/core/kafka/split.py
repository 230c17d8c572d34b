"""A split: everything that is committed about one partition of the topic.

``from_json`` refuses unknown or missing fields, values that are not offsets, and impossible combinations.
A wrong digit can still be a valid offset, so the JSON has a checksum.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field, fields, replace
from typing import Any

from airflow_backfill.core.errors import OffsetsInvalid, PositionRegressed, RecordInvalid
from airflow_backfill.core.kafka.offsets import MAX, is_offset
from airflow_backfill.core.kafka.state import Backfilling, CatchingUp, Finished, State, from_json, rank, to_json
from airflow_backfill.core.values.document import encode


@dataclass(frozen=True, slots=True)
class Split:
    """Offsets are inclusive unless said otherwise; counters are rows and never fall."""

    partition: int
    state: State = field(default_factory=Backfilling)
    target: int | None = None
    """Where the backfill stops at the latest; None for unknown. The broker's end or a landed offset, whichever was
    observed last, so it may decrease. Without meaning once the backfill has stopped.
    """
    read: int = 0
    """Rows that Kafka returned."""
    written: int = 0
    """Visible rows among them, before the user's filter."""
    scanned: int = -1
    """The last offset that a finished read covered, with or without a record; the next read begins after it. At first,
    the offset before the history.
    """
    credit: int | None = None
    """The greatest landed offset that was dropped because Kafka delivers it; None for none."""
    landed: int | None = None
    """The greatest offset in the landing table at the applied version, which may be the pinned one; None for none."""
    end: int = 0
    """The last known end of the broker's log, exclusive: the next offset of a reader."""
    oldest: int | None = None
    """When the first unread record was written, as of the start of the last round, in milliseconds since 1970; None if
    unknown. For display only.
    """
    expires: int = 0
    """When Kafka may delete that record, in milliseconds since 1970; 0 for never, or unknown. For display only."""
    cut: int | None = None
    """The seam: the target has Kafka's records up to this offset, and the landing table's rows after it. None while
    backfilling, and when everything comes from the landing table.
    """
    floor: int = 0
    """History before this offset is read from the landing table, because Kafka has deleted it."""
    lost: int = 0
    """Offsets of the history that were skipped, because neither Kafka nor the landing table has them."""

    @property
    def dropped(self) -> int:
        """Rows that Kafka returned although the backfill had stopped before them."""
        return self.read - self.written

    @property
    def held(self) -> int:
        """The greatest offset of the partition up to which the target holds all records; -1 for none."""
        match self.state:
            case Backfilling():
                return self.scanned
            case CatchingUp(offset):
                return offset
            case Finished():
                return max(-1 if offset is None else offset for offset in (self.cut, self.landed))

    @property
    def next_to_land(self) -> int:
        """The offset after the greatest one that has landed."""
        return 0 if self.landed is None else self.landed + 1

    @property
    def left(self) -> int:
        """Upper bound of the offsets that are left to read from Kafka."""
        if not isinstance(self.state, Backfilling):
            return 0
        last = self.end - 1 if self.target is None else min(self.target, self.end - 1)
        return max(last - self.scanned, 0)

    def check_successor(self, after: Split) -> None:
        """Raise PositionRegressed unless ``after`` may follow: states, offsets and counters never decrease."""
        grow = ("read", "written", "scanned", "end", "floor", "lost")
        back = any(getattr(after, name) < getattr(self, name) for name in grow)
        landed = -1 if self.landed is None else self.landed
        back = back or (-1 if after.landed is None else after.landed) < landed or rank(after.state) < rank(self.state)
        if back or after.partition != self.partition or self.cut not in (None, after.cut):
            raise PositionRegressed(
                f"partition {self.partition} must not go back from {self} to {after}"[:1000], partition=self.partition
            )

    def check_landed(self, least: int, **data: Any) -> None:
        """Raise OffsetsInvalid unless ``least`` is greater than every landed offset."""
        if self.landed is not None and least <= self.landed:
            raise OffsetsInvalid(
                f"offset {least} of partition {self.partition} landed after offset {self.landed}, but offsets must "
                "rise; plan again with on_existing='restart': what has landed by then may have any order",
                partition=self.partition,
                offset=least,
                after=self.landed,
                **data,
            )

    def check_read(self, least: int) -> None:
        """Raise OffsetsInvalid unless ``least`` is greater than every covered offset."""
        if least <= self.scanned:
            raise OffsetsInvalid(
                f"partition {self.partition}: Kafka returned offset {least}, but it already returned {self.scanned}",
                partition=self.partition,
                offset=least,
                after=self.scanned,
            )

    def stopped(self, at: int) -> Split:
        """The split whose backfill ends after the offset ``at``."""
        return replace(self, state=CatchingUp(at), cut=at)

    def finished(self) -> Split:
        return replace(self, state=Finished())

    def to_json(self) -> dict[str, Any]:
        document = {f.name: getattr(self, f.name) for f in fields(self)}
        document = {name: value for name, value in document.items() if value or name not in _LATER}
        document["state"] = to_json(self.state)
        return {**document, "sum": _sum(document)}

    @staticmethod
    def from_json(value: Any) -> Split:
        """The split in ``value``; RecordInvalid, with the value, for anything that ``to_json`` does not write."""
        if not isinstance(value, dict) or set(value) | _LATER != _FIELDS:
            raise _invalid("fields are missing or unknown", value)
        document = {name: found for name, found in value.items() if name != "sum"}
        split = Split(**{**document, "state": from_json(value["state"])})
        if not _typed(split):
            raise _invalid("an offset or a counter is not a valid number", value)
        if not (_state_fits(split) and _numbers_fit(split)):
            raise _invalid("its fields contradict each other", value)
        if type(value["sum"]) is not int or value["sum"] != _sum(document):
            raise _invalid("the checksum does not match", value)
        return split


_FIELDS = {"sum", *(f.name for f in fields(Split))}
_LATER = {"expires", "floor", "lost"}
"""Fields that are written only if they are not 0: older records do not have them."""


def _sum(document: dict[str, Any]) -> int:
    return zlib.crc32(encode(document).encode())


def _invalid(why: str, value: Any) -> RecordInvalid:
    return RecordInvalid(f"not a split, {why}: {value!r}"[:500], value=repr(value)[:500])


def _typed(split: Split) -> bool:
    counts = (split.partition, split.read, split.written, split.end, split.expires, split.floor, split.lost)
    offsets = (split.target, split.credit, split.landed, split.oldest, split.cut)
    sound = all(map(is_offset, counts)) and all(offset is None or is_offset(offset) for offset in offsets)
    return sound and type(split.scanned) is int and -1 <= split.scanned <= MAX


def _state_fits(split: Split) -> bool:
    """Whether the other fields are consistent with the state."""
    cut, credit, target = split.cut, split.credit, split.target
    if not isinstance(split.state, Backfilling):
        repaid = credit is None or (cut is not None and credit <= cut)
        return repaid and (isinstance(split.state, Finished) or cut == split.state.offset)
    b = split.state.offset
    if b is None:
        begun = split.read == 0
    else:
        begun = b <= split.scanned and (target is None or b < target)
    owed = credit is None or (target is not None and credit <= target)
    return begun and owed and cut is None and split.dropped == 0


def _numbers_fit(split: Split) -> bool:
    """Whether counters and offsets are consistent in any state."""
    counted = split.written <= split.read <= split.scanned + 1
    known = split.credit is None or (split.landed is not None and split.credit <= split.landed)
    bounded = max(split.floor, split.lost) <= split.end
    return counted and known and bounded and (split.cut is None or split.cut <= split.scanned)
