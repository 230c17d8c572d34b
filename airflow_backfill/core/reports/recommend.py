"""Which strategy fits a source, and why: for the plan's report, and for ``strategy="auto"``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from airflow_backfill.core.errors import BackfillError, FeedOff, InvalidSpec
from airflow_backfill.core.values.duration import lasting


@dataclass(frozen=True, slots=True)
class Sighted:
    """What the choice of a strategy depends on."""

    feed: bool
    """Whether the source has a change data feed."""
    key: bool
    """Whether the spec names a key."""
    ordered: bool
    """Whether the key's type has an order, so that the table can be split into ranges."""
    only_adds: bool
    """Whether all commits in the log only add rows."""
    seconds: float | None
    """Expected duration until the log is caught up, with a pinned snapshot; None for never."""
    kept: float
    """Seconds for which the source keeps replaced files and its log."""
    often: Callable[[], float]
    """How many times ``arrangement`` would read every byte."""


@dataclass(frozen=True, slots=True)
class Advice:
    strategy: str
    why: str


def recommend(source: Sighted) -> Advice | BackfillError:
    """The strategy for this source, or an error that says why none fits."""
    if source.feed and source.key:
        return _with_changes(source)
    lacking = "a key" if source.feed else "a change data feed"
    if source.only_adds:
        return Advice("chain", f"without {lacking} a build can only follow added rows, and this source only adds rows")
    if not source.feed:
        return FeedOff(
            "the source has no change data feed, but its history has updates or deletes; switch the feed on: ALTER "
            "TABLE … SET TBLPROPERTIES (delta.enableChangeDataFeed = true)"
        )
    return InvalidSpec(
        "key: the source's history has updates or deletes, which need a key; name its key columns", field="key"
    )


def _with_changes(source: Sighted) -> Advice:
    expected = "no end is expected" if source.seconds is None else f"{lasting(source.seconds)} expected"
    kept = f"{lasting(source.kept)} kept"
    if source.seconds is not None and source.seconds <= source.kept / 2:
        return Advice(
            "snapshot",
            f"each file is read once, and the source keeps the pinned files for long enough ({expected}, {kept})",
        )
    if not source.ordered:
        return Advice(
            "snapshot", "the key's type has no order, which arrangement needs; the source must keep its files longer"
        )
    return Advice(
        "arrangement",
        f"the source does not keep pinned files for long enough ({expected}, {kept}). Every byte is read about "
        f"{source.often():.1f} times; to read each once, raise delta.deletedFileRetentionDuration and use snapshot",
    )
