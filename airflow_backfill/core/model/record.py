"""The record: what a barrier says beside the rows it commits.

It is complete: the last record of each lane of the newest layout, together with the plan, is the whole state
of a build. It holds what is known before the write; the row counts of its own commit are in that commit's
metrics. Reading is strict: what does not parse, has an unknown field or a newer format is an error, never a
guess.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_backfill.core.errors import RecordInvalid
from airflow_backfill.core.model.announcement import Announced
from airflow_backfill.core.model.certificate import Certificate
from airflow_backfill.core.splits.kinds import position_from_json
from airflow_backfill.core.splits.position import Position
from airflow_backfill.core.values.bound import Bound
from airflow_backfill.core.values.commit import Commit, CommitId
from airflow_backfill.core.values.control import Control
from airflow_backfill.core.values.document import encode
from airflow_backfill.core.values.epoch import EpochRange
from airflow_backfill.core.values.phase import Event, Phase
from airflow_backfill.core.values.totals import Totals

FORMAT = 1
MAX_BYTES = 1 << 26
"""Of a record, wherever it is stored."""
MAX_SPLITS = 1 << 20


@dataclass(frozen=True, slots=True)
class Layout:
    """A set of lanes that exists at one time. Layouts are numbered; one is closed before the next begins."""

    number: int
    lanes: int


@dataclass(frozen=True, slots=True)
class Pending:
    """What was seen of the source when the record was written: for display, alarms and estimates."""

    head: int
    epochs: int
    rows: int | None
    at: int
    """When it was seen, milliseconds since 1970."""


@dataclass(frozen=True, slots=True)
class Tail:
    """What a record keeps of the last barrier of another lane, for when that one has aged out of the target's log."""

    at: int
    seq: int
    generation: int
    attempt: str
    event: Event
    control: Control
    totals: Totals
    """With those of that barrier itself."""
    due: int
    next_lanes: int | None = None
    decided_by: int | None = None

    def to_json(self) -> list[Any]:
        last = [self.control.to_json(), self.totals.to_json(), self.due, self.next_lanes, self.decided_by]
        return [self.at, self.seq, self.generation, self.attempt, self.event.value, *last]

    @staticmethod
    def from_json(value: Any) -> Tail:
        at, seq, generation, attempt, event, control, totals, due, next_lanes, decided_by = value
        return Tail(
            at=_count(at),
            seq=_count(seq, 1),
            generation=_count(generation),
            attempt=_string(attempt),
            event=Event(event),
            control=Control.from_json(control),
            totals=Totals.from_json(totals),
            due=_count(due),
            next_lanes=None if next_lanes is None else _count(next_lanes, 1),
            decided_by=None if decided_by is None else _count(decided_by),
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
    """Every commit of the target up to this version was looked at by the writer, and nothing foreign found."""
    tails: tuple[int, ...]
    """The newest barrier's version in each lane of the layout, as the writer knew it; -1 for none."""
    event: Event
    phase: Phase
    positions: tuple[Position, ...]
    base: Totals = field(default_factory=Totals)
    """Totals of the layouts before this one."""
    totals: Totals = field(default_factory=Totals)
    """Totals of this lane in this layout, without this very commit."""
    work: Totals = field(default_factory=Totals)
    """What this commit does, as far as it is known before the write: files, bytes and epochs, and the rows of ranges,
    which are counted first.
    """
    control: Control = field(default_factory=Control)
    due: int = 0
    """No unit of the snapshot starts before this time, milliseconds since 1970: how the throttle is kept."""
    epochs: EpochRange | None = None
    """The epochs whose changes this commit holds."""
    source: CommitId | None = None
    """The newest commit of the source at which anything stands; None if that was not known."""
    bound: Bound | None = None
    pending: Pending | None = None
    handoff: int | None = None
    certificate: Certificate | None = None
    next_lanes: int | None = None
    """In a closing record: how many lanes the next layout has."""
    decided_by: int | None = None
    """The generation of the attempt that decided so when it closed the first lane; in any other record of the one that
    decided on the record's own layout, None for nobody.
    """
    waits: str | None = None
    """Why nothing moves."""
    announced: int | None = None
    """The version of the newest announcement that the writer knew, -1 before the first; None if there are none (any
    more).
    """
    news: Announced | None = None
    """That announcement, for when it has aged out of the log."""
    others: Mapping[int, Tail] = field(default_factory=dict)
    """The last barriers of the other lanes, likewise."""

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
            "layout": [self.layout.number, self.layout.lanes],
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
        if self.epochs is not None:
            document["epochs"] = [self.epochs.start, self.epochs.stop]
        if self.source is not None:
            document["source"] = [self.source.version, self.source.digest]
        if self.bound is not None:
            document["bound"] = self.bound.to_json()
        if self.pending is not None:
            document["pending"] = [self.pending.head, self.pending.epochs, self.pending.rows, self.pending.at]
        if self.handoff is not None:
            document["handoff"] = self.handoff
        if self.certificate is not None:
            c = self.certificate
            numbers = [c.epoch, c.target_version, c.rows, c.digest, c.buckets, c.at, c.gone]
            document["certificate"] = [*numbers, c.lost] if c.lost else numbers
        decision = {"next_lanes": self.next_lanes, "decided_by": self.decided_by}
        document |= {name: value for name, value in decision.items() if value is not None}
        if self.waits is not None:
            document["waits"] = self.waits
        if self.announced is not None:
            document["announced"] = self.announced
        return document | self._beside()

    def _beside(self) -> dict[str, Any]:
        """What is kept of other lanes."""
        news = {} if self.news is None else {"news": self.news.to_json()}
        others = {str(lane): tail.to_json() for lane, tail in sorted(self.others.items())}
        return {**news, "others": others} if others else news

    def encode(self) -> str:
        """The record's text; RecordInvalid if nobody could read it again, before anything is committed with it."""
        text = encode(self.to_json())
        if encode(decode(text).to_json()) != text:
            raise RecordInvalid("the record would be read as another one", event=self.event.value)
        return text


_REQUIRED = {
    "airflow_backfill", "build", "plan", "layout", "lane", "seq", "generation", "attempt", "prev", "tails",
    "event", "phase", "positions", "base", "totals", "work", "control", "due",
}  # fmt: skip
_OPTIONAL = {
    "epochs", "source", "bound", "pending", "handoff", "certificate", "next_lanes", "decided_by", "waits", "announced",
    "news", "others",
}  # fmt: skip


def app_id(build: str, layout: int, lane: int) -> str:
    """The Delta transaction id of a lane. Never reused, and never shared by two lanes."""
    return f"{build}/{layout}/{lane}"


def decode(text: str) -> Record:
    """The record that ``text`` holds, or RecordInvalid naming what is wrong."""
    if len(text) > MAX_BYTES:
        raise RecordInvalid(f"a record of {len(text)} characters is too large", size=len(text))
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RecordInvalid(f"the record is not JSON: {str(error)[:200]}") from None
    if not isinstance(value, dict) or "airflow_backfill" not in value:
        raise RecordInvalid("not a record of a table backfill", value=text[:200])
    if type(value["airflow_backfill"]) is not int or value["airflow_backfill"] != FORMAT:
        raise RecordInvalid(
            f"the record has format {value['airflow_backfill']!r}, this version knows {FORMAT}: use the newer version",
            format=repr(value["airflow_backfill"])[:50],
        )
    fields_found = set(value)
    if not _REQUIRED <= fields_found or not fields_found <= _REQUIRED | _OPTIONAL:
        odd = sorted((_REQUIRED - fields_found) | (fields_found - _REQUIRED - _OPTIONAL))
        raise RecordInvalid(f"the record lacks or adds fields: {', '.join(odd)[:200]}", fields=odd[:20])
    try:
        return _build(value)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise RecordInvalid(f"the record is damaged: {str(error)[:200]}") from None


def _build(value: dict[str, Any]) -> Record:
    layout, lanes = (_count(n) for n in value["layout"])
    epochs, pending, certificate = value.get("epochs"), value.get("pending"), value.get("certificate")
    record = Record(
        build=_string(value["build"]),
        plan=_string(value["plan"]),
        layout=Layout(layout, lanes),
        lane=_count(value["lane"]),
        seq=_count(value["seq"]),
        generation=_count(value["generation"]),
        attempt=_string(value["attempt"]),
        prev=_count(value["prev"]),
        tails=tuple(_count(n, -1) for n in value["tails"]),
        event=Event(value["event"]),
        phase=Phase(value["phase"]),
        positions=_positions_from_json(value["positions"]),
        base=Totals.from_json(value["base"]),
        totals=Totals.from_json(value["totals"]),
        work=Totals.from_json(value["work"]),
        control=Control.from_json(value["control"]),
        due=_count(value["due"]),
        epochs=EpochRange(*(_count(n) for n in epochs)) if epochs is not None else None,
        source=_commit_id(*value["source"]) if "source" in value else None,
        bound=Bound.from_json(value["bound"]) if "bound" in value else None,
        pending=_pending(*pending) if pending is not None else None,
        handoff=_count(value["handoff"]) if "handoff" in value else None,
        certificate=_certificate(*certificate) if certificate is not None else None,
        next_lanes=_count(value["next_lanes"], 1) if "next_lanes" in value else None,
        decided_by=_count(value["decided_by"]) if "decided_by" in value else None,
        waits=_string(value["waits"]) if "waits" in value else None,
        announced=_count(value["announced"], -1) if "announced" in value else None,
        news=Announced.from_json(value["news"]) if "news" in value else None,
        others={_count(int(lane)): Tail.from_json(tail) for lane, tail in value.get("others", {}).items()},
    )
    if record.lane >= lanes or record.seq < 1 or len(record.tails) != lanes:
        raise ValueError(f"lane {record.lane} of {lanes}, seq {record.seq}, {len(record.tails)} tails")
    if (record.next_lanes is not None) != record.closed or (record.closed and record.decided_by is None):
        raise ValueError("exactly a closing record says how many lanes come next, and then who decided so")
    return record


def _commit_id(version: Any, digest: Any) -> CommitId:
    return CommitId(_count(version), _string(digest))


def _pending(head: Any, epochs: Any, rows: Any, at: Any) -> Pending:
    return Pending(_count(head), _count(epochs), None if rows is None else _count(rows), _count(at))


def _certificate(epoch: Any, version: Any, rows: Any, digest: Any, buckets: Any, *more: Any) -> Certificate:
    at, gone, *lost = more
    counts = _count(epoch), _count(version), _count(rows)
    later = (_count(number, 1) for number in lost)
    return Certificate(*counts, _string(digest), _count(buckets), _count(at), _count(gone), *later)


def _count(value: Any, least: int = 0) -> int:
    if type(value) is not int or value < least:
        raise ValueError(f"not a count: {value!r}")
    return value


def _string(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"not a text: {value!r}")
    return value


def _positions_to_json(positions: tuple[Position, ...]) -> Any:
    """Equal neighbours are written once, with their number: a thousand finished splits take ten bytes."""
    runs: list[list[Any]] = []
    for position in positions:
        shown = position.to_json()
        if runs and runs[-1][1] == shown:
            runs[-1][0] += 1
        else:
            runs.append([1, shown])
    return runs


def _positions_from_json(runs: Any) -> tuple[Position, ...]:
    positions: list[Position] = []
    if not isinstance(runs, list):
        raise ValueError(f"not positions: {runs!r}")
    for count, shown in runs:
        if len(positions) + _count(count, 1) > MAX_SPLITS:
            raise ValueError("too many splits")
        positions.extend([position_from_json(shown)] * count)
    return tuple(positions)


def barrier_record(commit: Commit) -> Record | None:
    """The record of ``commit`` if the commit is a barrier, else None.

    A barrier's commit holds both the transaction id and the record, and they name the same build, lane and
    seq: user metadata alone also lands on other commits of a session, and proves nothing.
    """
    if commit.user_metadata is None or not commit.txns or '"airflow_backfill":' not in commit.user_metadata:
        return None
    record = decode(commit.user_metadata)
    return record if commit.txns.get(record.app_id) == record.seq else None


def generation_in(commit: Commit) -> int:
    """The generation that the record of ``commit`` names, also if nothing else in it can be believed; 0 for none."""
    if commit.user_metadata is None or not commit.txns or '"airflow_backfill":' not in commit.user_metadata:
        return 0
    try:
        generation = json.loads(commit.user_metadata)["generation"]
    except (KeyError, TypeError, ValueError, RecursionError):
        return 0
    return generation if type(generation) is int else 0
