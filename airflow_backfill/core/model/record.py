"""The record: the progress that a barrier commits together with its rows.

Records are complete: the plan and the last record of each lane of the newest layout are the whole state of a build. A
record holds what is known before the write; the rows of its own commit are in that commit's metrics. Reading is strict:
an unknown field, a wrong type or a newer format is an error.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from airflow_backfill.core.errors import Discontinuous, PositionRegressed, RecordInvalid
from airflow_backfill.core.model.announcement import Announced
from airflow_backfill.core.model.certificate import Certificate
from airflow_backfill.core.model.format_1 import upgraded
from airflow_backfill.core.splits.kinds import position_from_json
from airflow_backfill.core.splits.position import Position
from airflow_backfill.core.values.bound import Bound
from airflow_backfill.core.values.commit import Commit, CommitId
from airflow_backfill.core.values.control import Control
from airflow_backfill.core.values.cost import Cost
from airflow_backfill.core.values.document import count, encode, parts, text
from airflow_backfill.core.values.epoch import EpochRange
from airflow_backfill.core.values.phase import Event, Phase
from airflow_backfill.core.values.totals import Totals

FORMAT = 2
"""The format that is written. Formats from ``OLDEST`` on are read."""
OLDEST = 1
MAX_BYTES = 1 << 26
"""Maximum size of a record, in bytes, wherever it is stored."""
MAX_SPLITS = 1 << 20


@dataclass(frozen=True, slots=True)
class Layout:
    """A set of lanes that exists at one time. Layouts are numbered; one is closed before the next begins."""

    number: int
    lanes: int

    def to_json(self) -> dict[str, int]:
        return {"number": self.number, "lanes": self.lanes}

    @staticmethod
    def from_json(value: Any) -> Layout:
        return Layout(*(count(number) for number in parts(value, "number", "lanes")))


@dataclass(frozen=True, slots=True)
class Pending:
    """The source as observed when the record was written: for display, alarms and estimates."""

    head: int
    epochs: int
    rows: int | None
    at: int
    """Time of the observation, milliseconds since 1970."""

    def to_json(self) -> dict[str, int | None]:
        return {"head": self.head, "epochs": self.epochs, "rows": self.rows, "at": self.at}

    @staticmethod
    def from_json(value: Any) -> Pending:
        head, epochs, rows, at = parts(value, "head", "epochs", "rows", "at")
        return Pending(count(head), count(epochs), None if rows is None else count(rows), count(at))


@dataclass(frozen=True, slots=True)
class Tail:
    """The last barrier of another lane, repeated here because its own commit may be deleted from the log."""

    at: int
    seq: int
    generation: int
    attempt: str
    event: Event
    control: Control
    totals: Totals
    """Totals including that barrier."""
    due: int
    next_lanes: int | None = None
    decided_by: int | None = None

    def to_json(self) -> dict[str, Any]:
        decision = {"next_lanes": self.next_lanes, "decided_by": self.decided_by}
        return {
            "at": self.at,
            "seq": self.seq,
            "generation": self.generation,
            "attempt": self.attempt,
            "event": self.event.value,
            "control": self.control.to_json(),
            "totals": self.totals.to_json(),
            "due": self.due,
            **{name: number for name, number in decision.items() if number is not None},
        }

    @staticmethod
    def from_json(value: Any) -> Tail:
        at, seq, generation, attempt, event, control, totals, due, next_lanes, decided_by = parts(
            value,
            *("at", "seq", "generation", "attempt", "event", "control", "totals", "due"),
            optional=("next_lanes", "decided_by"),
        )
        return Tail(
            at=count(at),
            seq=count(seq, 1),
            generation=count(generation),
            attempt=text(attempt),
            event=Event(event),
            control=Control.from_json(control),
            totals=Totals.from_json(totals),
            due=count(due),
            next_lanes=None if next_lanes is None else count(next_lanes, 1),
            decided_by=None if decided_by is None else count(decided_by),
        )


@dataclass(frozen=True, slots=True)
class Record:
    build: str
    plan: str
    """Fingerprint of the plan."""
    layout: Layout
    lane: int
    seq: int
    generation: int
    attempt: str
    prev: int
    """The writer checked every commit of the target up to this version and found none of another writer."""
    tails: tuple[int, ...]
    """The version of the newest barrier in each lane of the layout that the writer knew; -1 for none."""
    event: Event
    phase: Phase
    positions: tuple[Position, ...]
    base: Totals = field(default_factory=Totals)
    """Totals of all earlier layouts."""
    totals: Totals = field(default_factory=Totals)
    """Totals of this lane in this layout, without this commit."""
    work: Totals = field(default_factory=Totals)
    """What this commit adds, as far as known before the write: files, bytes, epochs, and the rows of ranges."""
    control: Control = field(default_factory=Control)
    due: int = 0
    """The throttle lets no unit of the snapshot start before this time, milliseconds since 1970."""
    epochs: EpochRange | None = None
    """The epochs whose changes this commit holds."""
    source: CommitId | None = None
    """The newest commit of the source that any position depends on; None if unknown."""
    bound: Bound | None = None
    pending: Pending | None = None
    handoff: int | None = None
    certificate: Certificate | None = None
    recovered: int | None = None
    """The epoch that an operator named in a recovery; None as soon as a proof has followed."""
    next_lanes: int | None = None
    """In a closing record: the number of lanes of the next layout."""
    decided_by: int | None = None
    """In a closing record: the generation that decided on the next layout by closing the first lane. In other records:
    the generation that decided on the record's own layout, or None.
    """
    waits: str | None = None
    """The reason for a wait."""
    announced: int | None = None
    """The version of the newest announcement that the writer knew; -1 before the first; None if the build announces
    nothing.
    """
    news: Announced | None = None
    """This announcement, repeated here because its commit may be deleted from the log."""
    progress: int | None = None
    """The highest progress of the build so far, in hundredths of a percent; None in records of older versions."""
    cost: Cost | None = None
    """What all attempts of the build had cost when it was finished or cancelled; None before."""
    others: Mapping[int, Tail] = field(default_factory=dict)
    """The last barriers of the other lanes, for the same reason."""

    @property
    def app_id(self) -> str:
        return app_id(self.build, self.layout.number, self.lane)

    @property
    def closed(self) -> bool:
        return self.event is Event.CLOSE

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            "airflow_backfill": FORMAT,
            "build": self.build,
            "plan": self.plan,
            "layout": self.layout.to_json(),
            "lane": self.lane,
            "seq": self.seq,
            "generation": self.generation,
            "attempt": self.attempt,
            "prev": self.prev,
            "tails": list(self.tails),
            "event": self.event.value,
            "phase": self.phase.value,
            "positions": _positions_to_json(self.positions),
            "base": self.base.to_json(),
            "totals": self.totals.to_json(),
            "work": self.work.to_json(),
            "control": self.control.to_json(),
            "due": self.due,
        }
        objects = ("epochs", "source", "bound", "pending", "certificate", "news", "cost")
        document |= {name: part.to_json() for name in objects if (part := getattr(self, name)) is not None}
        plain = ("handoff", "recovered", "next_lanes", "decided_by", "waits", "announced", "progress")
        document |= {name: part for name in plain if (part := getattr(self, name)) is not None}
        others = {str(lane): tail.to_json() for lane, tail in sorted(self.others.items())}
        return {**document, "others": others} if others else document

    def encode(self) -> str:
        """The record as text. Raises RecordInvalid if it could not be read back; nothing is committed then."""
        written = encode(self.to_json())
        if encode(decode(written).to_json()) != written:
            raise RecordInvalid("the record would change when it is read back", event=self.event.value)
        return written


_REQUIRED = {
    "airflow_backfill", "build", "plan", "layout", "lane", "seq", "generation", "attempt", "prev", "tails",
    "event", "phase", "positions", "base", "totals", "work", "control", "due",
}  # fmt: skip
_OPTIONAL: Mapping[str, Callable[[Any], Any]] = {
    "epochs": EpochRange.from_json,
    "source": CommitId.from_json,
    "bound": Bound.from_json,
    "pending": Pending.from_json,
    "handoff": count,
    "certificate": Certificate.from_json,
    "recovered": count,
    "next_lanes": lambda number: count(number, 1),
    "decided_by": count,
    "waits": text,
    "announced": lambda version: count(version, -1),
    "news": Announced.from_json,
    "progress": count,
    "cost": Cost.from_json,
    "others": lambda others: {count(int(lane)): Tail.from_json(tail) for lane, tail in others.items()},
}
"""Optional fields, with the function that reads each."""


def app_id(build: str, layout: int, lane: int) -> str:
    """The Delta transaction id of a lane. Never reused, and never shared by two lanes."""
    return f"{build}/{layout}/{lane}"


def decode(written: str) -> Record:
    """The record in ``written``. Raises RecordInvalid, with the field."""
    if len(written) > MAX_BYTES:
        raise RecordInvalid(f"the record is too large: {len(written)} characters", size=len(written))
    try:
        value = json.loads(written)
    except (ValueError, RecursionError) as error:
        raise RecordInvalid(f"the record is not JSON: {str(error)[:200]}") from None
    if not isinstance(value, dict) or "airflow_backfill" not in value:
        raise RecordInvalid("not a record of a table backfill", value=written[:200])
    found = value["airflow_backfill"]
    if type(found) is not int or not OLDEST <= found <= FORMAT:
        raise RecordInvalid(
            f"the record has format {found!r:.50}, but this version reads {OLDEST} to {FORMAT}; use a newer version",
            format=repr(found)[:50],
        )
    fields_found = set(value)
    if not _REQUIRED <= fields_found or not fields_found <= _REQUIRED | _OPTIONAL.keys():
        odd = sorted((_REQUIRED - fields_found) | (fields_found - _REQUIRED - _OPTIONAL.keys()))
        raise RecordInvalid(f"the record has missing or unknown fields: {', '.join(odd)[:200]}", fields=odd[:20])
    try:
        return _build(value if found == FORMAT else upgraded(value))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise RecordInvalid(f"the record is damaged: {str(error)[:200]}") from None


def _build(value: dict[str, Any]) -> Record:
    record = Record(
        build=text(value["build"]),
        plan=text(value["plan"]),
        layout=Layout.from_json(value["layout"]),
        lane=count(value["lane"]),
        seq=count(value["seq"]),
        generation=count(value["generation"]),
        attempt=text(value["attempt"]),
        prev=count(value["prev"]),
        tails=tuple(count(version, -1) for version in value["tails"]),
        event=Event(value["event"]),
        phase=Phase(value["phase"]),
        positions=_positions_from_json(value["positions"]),
        base=Totals.from_json(value["base"]),
        totals=Totals.from_json(value["totals"]),
        work=Totals.from_json(value["work"]),
        control=Control.from_json(value["control"]),
        due=count(value["due"]),
        **{name: read(value[name]) for name, read in _OPTIONAL.items() if name in value},
    )
    lanes = record.layout.lanes
    if record.lane >= lanes or record.seq < 1 or len(record.tails) != lanes:
        raise ValueError(f"inconsistent: lane {record.lane} of {lanes}, seq {record.seq}, {len(record.tails)} tails")
    if (record.next_lanes is not None) != record.closed or (record.closed and record.decided_by is None):
        raise ValueError("a closing record needs next_lanes and decided_by, and no other record may have next_lanes")
    return record


def _positions_to_json(positions: tuple[Position, ...]) -> list[dict[str, Any]]:
    """Equal neighbours are written once, with their count, so a thousand finished splits take a few bytes."""
    return [{"splits": len(list(run)), **position.to_json()} for position, run in groupby(positions)]


def _positions_from_json(runs: Any) -> tuple[Position, ...]:
    positions: list[Position] = []
    if not isinstance(runs, list):
        raise ValueError(f"positions are not a list: {runs!r}")
    for run in runs:
        number = count(run["splits"], 1)
        if len(positions) + number > MAX_SPLITS:
            raise ValueError("too many splits")
        positions.extend([position_from_json({name: part for name, part in run.items() if name != "splits"})] * number)
    return tuple(positions)


def barrier_record(commit: Commit, build: str | None = None) -> Record | None:
    """The record of ``commit`` if it is a barrier (of ``build``, if given), else None. In a barrier, transaction id and
    record name the same build, lane and seq. User metadata alone proves nothing, because a session may attach it to
    other commits. RecordInvalid names the version.

    A table's log may hold barriers of another build: an attempt that was committing while its target was dropped may
    commit into the log of the next table. Such a commit is nothing, or, if it changes rows, that of another writer.
    """
    if commit.user_metadata is None or not commit.txns or '"airflow_backfill":' not in commit.user_metadata:
        return None
    with named(commit.version):
        record = decode(commit.user_metadata)
    ours = build in (None, record.build) and commit.txns.get(record.app_id) == record.seq
    return record if ours else None


@contextmanager
def named(version: int) -> Iterator[None]:
    """Name the version in an error about its record: one goes back by a RESTORE to the version before it."""
    try:
        yield
    except (Discontinuous, PositionRegressed, RecordInvalid) as error:
        data = {**error.data, "version": version}
        raise type(error)(f"version {version} of the target: {error.message}", **data) from None


def generation_in(commit: Commit) -> int:
    """The generation in the record of ``commit``, even if the rest of the record is damaged; 0 for none."""
    if commit.user_metadata is None or not commit.txns or '"airflow_backfill":' not in commit.user_metadata:
        return 0
    try:
        generation = json.loads(commit.user_metadata)["generation"]
    except (KeyError, TypeError, ValueError, RecursionError):
        return 0
    return generation if type(generation) is int else 0
