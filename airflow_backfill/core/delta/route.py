"""Which way to the changes of a range of epochs reads least.

A change feed keeps change data for some commits only. For a delete that left a deletion vector it reads the
touched files, once for every epoch; the difference of two ends reads them once for all epochs. What each way
reads is known from the sizes in the log. A difference spans neither a rewrite without data change (its rows
would all seem new) nor a change of schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import groupby

from airflow_backfill.core.values.epoch import EpochRange

_FILE = 1 << 20
"""Opening a file, as the bytes that could be read in that time."""
_SCAN = 16 << 20
"""A scan of its own, likewise: an epoch whose deletion vectors have to be compared needs one."""
LEGS = 16
"""Of one plan of Spark's. Each is a few scans, and what a plan takes grows faster than what is in it."""


class Route(str, Enum):
    FEED = "feed"
    """Each epoch for itself: its change data, or its added and removed files."""
    DIFFERENCE = "difference"
    """All epochs together: the files before against the files after."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """What one epoch offers to read."""

    epoch: int
    changes: Sequence[int] = ()
    """Sizes of its change data files."""
    files: Mapping[str, int] = field(default_factory=dict)
    """Sizes of the data files it added or removed, with data change."""
    masked: bool = False
    """Files stay and hide more rows (or fewer): added and removed in one commit."""
    rewrites: bool = False
    reshapes: bool = False
    distrusted: bool = False
    """Its feed is known to be wrong."""

    @property
    def feed_cost(self) -> int:
        """What its feed reads."""
        if self.changes:
            return _cost(self.changes)
        return _cost(self.files.values()) + (_SCAN if self.masked else 0)

    @property
    def heavy(self) -> bool:
        return self.distrusted or (self.masked and not self.changes)


@dataclass(frozen=True, slots=True)
class Leg:
    """Consecutive epochs that are read in one way, and why."""

    epochs: EpochRange
    route: Route
    cost: int
    reason: str


def choose(footprints: Sequence[Footprint]) -> list[Leg]:
    """Legs that cover the epochs in order, without a gap, each by the cheapest way that is right for it.

    Spark plans all of them together, which takes the longer the more there are: where too many would be cheapest, each
    stretch over which a difference may reach is one leg. How many such stretches a round has, its size bounds.
    """
    segments = list(_segments(footprints))
    best = _joined(leg for segment in segments for leg in _cheapest(segment))
    if len(best) <= LEGS:
        return best
    return _joined(min(_whole(segment), key=lambda leg: leg.cost) for segment in segments)


def _joined(chosen: Iterable[Leg]) -> list[Leg]:
    """The legs, with those that are next to each other and read by the feed as one."""
    legs: list[Leg] = []
    for leg in chosen:
        if legs and legs[-1].route is leg.route is Route.FEED:
            before = legs.pop()
            leg = Leg(
                EpochRange(before.epochs.start, leg.epochs.stop),
                Route.FEED,
                before.cost + leg.cost,
                leg.reason,
            )
        legs.append(leg)
    return legs


def _segments(footprints: Sequence[Footprint]) -> Iterator[list[Footprint]]:
    """Stretches over which a difference may reach."""
    segment: list[Footprint] = []
    for one in footprints:
        if segment and (one.rewrites or one.reshapes or segment[-1].rewrites):
            yield segment
            segment = []
        segment.append(one)
    if segment:
        yield segment


def _cheapest(segment: list[Footprint]) -> list[Leg]:
    runs = [list(run) for _, run in groupby(segment, key=lambda one: one.heavy)]
    by_run = [min(_ways(run), key=lambda leg: leg.cost) for run in runs]
    whole = _difference(segment)
    if len(runs) > 1 and whole.cost < sum(leg.cost for leg in by_run):
        return [whole]
    return by_run


def _ways(run: list[Footprint]) -> list[Leg]:
    return _whole(run) if run[0].heavy else [_feed(run)]


def _whole(run: list[Footprint]) -> list[Leg]:
    """The ways that are right for all of it."""
    if any(one.distrusted for one in run):
        return [_difference(run, "its change data is not all of the change")]
    return [_feed(run), _difference(run)]


def _feed(run: list[Footprint]) -> Leg:
    return Leg(_range(run), Route.FEED, sum(one.feed_cost for one in run), "the feed reads least")


def _difference(run: list[Footprint], why: str | None = None) -> Leg:
    files: dict[str, int] = {}
    for one in run:
        files.update(one.files)
    cost = _cost(files.values()) + _SCAN
    fed = sum(one.feed_cost for one in run)
    reason = why or f"{len(files)} files are read once for {len(run)} epochs ({cost} against {fed} for the feed)"
    return Leg(_range(run), Route.DIFFERENCE, cost, reason)


def _range(run: list[Footprint]) -> EpochRange:
    return EpochRange(run[0].epoch, run[-1].epoch + 1)


def _cost(sizes: Iterable[int]) -> int:
    return sum(size + _FILE for size in sizes)
