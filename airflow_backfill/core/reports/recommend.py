"""Which strategy fits a source, and why: for the plan's report, and for ``strategy="auto"``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from airflow_backfill.core.errors import BackfillError, FeedOff, InvalidSpec
from airflow_backfill.core.values.duration import lasting

AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Sighted:
    """What a planner sees of a source that matters to the choice."""

    feed: bool
    """Whether it has a change data feed."""
    key: bool
    """Whether the spec names a key."""
    ordered: bool
    """Whether the key has an order by which a table can be cut."""
    only_adds: bool
    """Whether the commits that are still known only ever added rows."""
    seconds: float | None
    """Expected until the log is caught up with, if the snapshot is pinned; None: never, at these rates."""
    kept: float
    """Seconds for which the source keeps what newer versions replaced."""
    often: Callable[[], float]
    """How often every byte would be read in ranges of the key."""


@dataclass(frozen=True, slots=True)
class Advice:
    strategy: str
    why: str


def recommend(seen: Sighted) -> Advice | BackfillError:
    """The strategy for this source; the error that says why if none fits, because nothing says what becomes of rows."""
    if seen.feed and seen.key:
        return _with_changes(seen)
    lacking = "a key" if seen.feed else "a change data feed"
    if seen.only_adds:
        return Advice("chain", f"without {lacking} only added rows can be followed, and this source only adds rows")
    if not seen.feed:
        return FeedOff(
            "the source has no change data feed, and its history does more than add rows; switch the feed on: ALTER "
            "TABLE … SET TBLPROPERTIES (delta.enableChangeDataFeed = true)"
        )
    return InvalidSpec("key: the source's history does more than add rows: name its key", field="key")


def _with_changes(seen: Sighted) -> Advice:
    pinned = "no end is" if seen.seconds is None else f"{lasting(seen.seconds)} are"
    given = f"{lasting(seen.kept)} are given"
    if seen.seconds is not None and seen.seconds <= seen.kept / 2:
        return Advice(
            "snapshot",
            f"each file is read once, and the pinned ones are kept for long enough: {pinned} expected, {given}",
        )
    if not seen.ordered:
        return Advice("snapshot", "the key has no order to cut the table by; the source has to keep its files longer")
    return Advice(
        "arrangement",
        f"nothing has to be kept: {pinned} expected with pinned files, {given}. Every byte will be read about "
        f"{seen.often():.1f} times; to read each once, raise delta.deletedFileRetentionDuration and take snapshot",
    )
