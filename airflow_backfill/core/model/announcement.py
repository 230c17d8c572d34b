"""Announcements: epochs of the source that a target shows before it holds their data (docs/behaviours/chain.md).

While a chain reads its snapshot and then the log, it announces every epoch of the source in a lane of its own, by an
empty commit. Consumers can wait for an epoch without waiting for its data. The data's lane cannot carry announcements,
because both would compete for the same transaction number. The lane ends with the commit CAUGHT_UP, which takes the
lane's next number, so no epoch can be announced between the comparison and the end. After it, an epoch appears with its
data.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from typing import Any

from airflow_backfill.core.errors import RecordInvalid
from airflow_backfill.core.model.format_1 import upgraded_announcement
from airflow_backfill.core.values.commit import Commit, CommitId
from airflow_backfill.core.values.document import count, encode, parts, text
from airflow_backfill.core.values.epoch import EpochRange

FORMAT = 2
LANE = "seen"
_MARK = "airflow_backfill_seen"


class Kind(str, Enum):
    CLAIM = "claim"
    """A newer attempt takes over the lane."""
    EPOCHS = "epochs"
    """These epochs exist in the source; their data has yet to come."""
    CAUGHT_UP = "caught_up"
    """The data has reached the announced epoch, so the lane ends."""


@dataclass(frozen=True, slots=True)
class Announcement:
    build: str
    plan: str
    """Fingerprint of the plan."""
    seq: int
    generation: int
    attempt: str
    prev: int
    """The writer checked every commit of the target up to this version and found none of another writer."""
    newest: int
    """The version of the newest barrier among these commits; -1 for none."""
    kind: Kind
    seen: int
    """The last announced epoch, including this commit."""
    epochs: EpochRange | None = None
    """The epochs that this commit announces."""
    digest: str | None = None
    """Hash of the source's commit at ``seen``, if known."""

    @property
    def app_id(self) -> str:
        return app_id(self.build)

    def to_json(self) -> dict[str, Any]:
        return {
            _MARK: FORMAT,
            "build": self.build,
            "plan": self.plan,
            "seq": self.seq,
            "generation": self.generation,
            "attempt": self.attempt,
            "prev": self.prev,
            "newest": self.newest,
            "kind": self.kind.value,
            "seen": self.seen,
            **({} if self.epochs is None else {"epochs": self.epochs.to_json()}),
            **({} if self.digest is None else {"digest": self.digest}),
        }

    def encode(self) -> str:
        """The announcement as text. Raises RecordInvalid if it could not be read back."""
        text = encode(self.to_json())
        decode(text)
        return text


@dataclass(frozen=True, slots=True)
class Announced:
    """The committed state of the lane of announcements. It starts at the snapshot's epoch."""

    seen: int
    version: int = -1
    """Version of the newest announcement; -1 for none."""
    seq: int = 0
    generation: int = 0
    attempt: str = ""
    open: bool = True
    """Whether the data has yet to reach the announced epoch."""
    source: CommitId | None = None
    """The source's commit at ``seen``, if known."""

    def after(self, version: int, news: Announcement) -> Announced:
        """The lane after one more announcement; RecordInvalid if it does not continue the lane."""
        takes_over = news.kind is Kind.CLAIM and news.generation > self.generation
        if not self.open or news.seq != self.seq + 1 or not (takes_over or news.attempt == self.attempt):
            raise RecordInvalid(f"version {version} does not continue the lane of announcements", version=version)
        if news.kind is Kind.EPOCHS:
            goes_on = news.epochs is not None and (news.epochs.start, news.epochs.last) == (self.seen + 1, news.seen)
        else:
            goes_on = news.epochs is None and news.seen == self.seen
        if not goes_on:
            raise RecordInvalid(f"version {version} announces epoch {news.seen} after {self.seen}", version=version)
        return Announced.at(version, news)

    def to_json(self) -> dict[str, Any]:
        return {
            "seen": self.seen,
            "version": self.version,
            "seq": self.seq,
            "generation": self.generation,
            "attempt": self.attempt,
            "open": self.open,
            **({} if self.source is None else {"digest": self.source.digest}),
        }

    @staticmethod
    def from_json(value: Any) -> Announced:
        try:
            names = ("seen", "version", "seq", "generation", "attempt", "open")
            *numbers, attempt, is_open, digest = parts(value, *names, optional=("digest",))
            seen, version, seq, generation = (count(number) for number in numbers)
            source = None if digest is None else CommitId(seen, text(digest))
            if isinstance(attempt, str) and isinstance(is_open, bool):
                return Announced(seen, version, seq, generation, attempt, is_open, source)
        except ValueError:
            pass
        raise RecordInvalid(f"not a state of announcements: {value!r}", value=repr(value)[:200])

    @staticmethod
    def at(version: int, last: Announcement) -> Announced:
        """The lane whose newest announcement is ``last``."""
        is_open = last.kind is not Kind.CAUGHT_UP
        source = None if last.digest is None else CommitId(last.seen, last.digest)
        return Announced(last.seen, version, last.seq, last.generation, last.attempt, is_open, source)


def app_id(build: str) -> str:
    """The Delta transaction id of the lane."""
    return f"{build}/{LANE}"


def announcement(commit: Commit, build: str | None = None) -> Announcement | None:
    """The announcement in ``commit`` (of ``build``, if given); None unless its transaction id confirms it, as for a
    barrier.
    """
    if commit.user_metadata is None or not commit.txns or f'"{_MARK}":' not in commit.user_metadata:
        return None
    found = decode(commit.user_metadata)
    ours = build in (None, found.build) and commit.txns.get(found.app_id) == found.seq
    return found if ours else None


def decode(written: str) -> Announcement:
    """The announcement in ``written``; RecordInvalid if it is damaged."""
    try:
        value = json.loads(written)
        value = upgraded_announcement(value) if type(value[_MARK]) is int and value[_MARK] == 1 else value
        epochs = value.get("epochs")
        found = Announcement(
            build=value["build"],
            plan=value["plan"],
            seq=value["seq"],
            generation=value["generation"],
            attempt=value["attempt"],
            prev=value["prev"],
            newest=value["newest"],
            kind=Kind(value["kind"]),
            seen=value["seen"],
            epochs=None if epochs is None else EpochRange.from_json(epochs),
            digest=value.get("digest"),
        )
        # A missing, unknown or mistyped field changes the encoded text.
        sound = encode(found.to_json()) == encode(value) and found.seq >= 1 and _typed(found)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise RecordInvalid(f"the announcement is damaged: {str(error)[:200]}") from None
    if not sound:
        raise RecordInvalid("the announcement is damaged: its fields contradict each other", value=written[:200])
    return found


def _typed(found: Announcement) -> bool:
    counts = (found.seq, found.generation, found.prev, found.newest, found.seen)
    texts = (found.build, found.plan, found.attempt, *(() if found.digest is None else (found.digest,)))
    return all(type(n) is int and n >= -1 for n in counts) and all(isinstance(text, str) and text for text in texts)
