"""The cheapest way to read the changes of a range of epochs.

A change feed has change data for some commits only. For a deletion vector, the feed reads the touched files once per
epoch; the difference between first and last version reads them once for all epochs. The sizes in the log tell the cost
of each way. A difference must not span a rewrite without data change, whose rows would all seem new, nor a change of
schema. Nothing spans a change of the protocol.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import groupby

from airflow_backfill.core.values.epoch import EpochRange

_FILE_BYTES = 1 << 20
"""The cost of opening a file, as bytes that could be read in that time."""
_SCAN_BYTES = 16 << 20
"""The cost of a separate scan, likewise: an epoch whose deletion vectors have to be compared needs one."""
MAX_LEGS = 16
"""In one query plan of Spark. Each leg is a few scans, and planning time grows faster than their number."""


class Route(str, Enum):
    FEED = "feed"
    """Each epoch separately: its change data, or its added and removed files."""
    DIFFERENCE = "difference"
    """All epochs together: the files before the first against the files after the last."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """What there is to read of one epoch."""

    epoch: int
    changes: Sequence[int] = ()
    """Sizes of its change data files."""
    files: Mapping[str, int] = field(default_factory=dict)
    """Sizes of the data files that it added or removed with data change."""
    masked: bool = False
    """Files got other deletion vectors: the commit removes and adds the same files."""
    long: bool = False
    """Those differ in more rows than the feed can surely describe."""
    rewrites: bool = False
    reshapes: bool = False
    upgrades: bool = False
    """It changes the protocol: what is before it is read by another version of the table."""
    distrusted: bool = False
    """Its change data is known to be incomplete."""

    @property
    def feed_cost(self) -> int:
        """Bytes that its feed reads."""
        if self.changes:
            return _cost(self.changes)
        return _cost(self.files.values()) + (_SCAN_BYTES if self.masked else 0)

    @property
    def heavy(self) -> bool:
        return self.distrusted or (self.masked and not self.changes)

    @property
    def unreadable(self) -> str | None:
        """Why its feed cannot be read; None if it can."""
        if self.distrusted:
            return "its change data is incomplete"
        return "its deletion vectors differ in many rows" if self.long and not self.changes else None


@dataclass(frozen=True, slots=True)
class Leg:
    """Consecutive epochs that are read by one route, and why."""

    epochs: EpochRange
    route: Route
    cost: int
    reason: str


def choose(footprints: Sequence[Footprint]) -> list[Leg]:
    """Legs that cover the epochs in order without a gap, each by its cheapest correct route.

    Spark plans all legs together. With more than ``MAX_LEGS``, each segment that a difference may span becomes one leg;
    the size of a round limits the number of segments.
    """
    segments = list(_segments(footprints))
    ends = {one.epoch for one in footprints if one.upgrades}
    best = _joined((leg for segment in segments for leg in _cheapest(segment)), ends)
    if len(best) <= MAX_LEGS:
        return best
    return _joined((min(_whole(segment), key=lambda leg: leg.cost) for segment in segments), ends)


def _joined(chosen: Iterable[Leg], ends: Collection[int]) -> list[Leg]:
    """The legs, with adjacent ones that read the feed merged, unless one begins at one of ``ends``."""
    legs: list[Leg] = []
    for leg in chosen:
        if legs and legs[-1].route is leg.route is Route.FEED and leg.epochs.start not in ends:
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
    """Segments that a difference may span."""
    segment: list[Footprint] = []
    for one in footprints:
        if segment and (one.rewrites or one.reshapes or one.upgrades or segment[-1].rewrites):
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
    """The routes that are correct for the whole run."""
    why = next((one.unreadable for one in run if one.unreadable), None)
    if why is not None:
        return [_difference(run, why)]
    return [_feed(run), _difference(run)]


def _feed(run: list[Footprint]) -> Leg:
    return Leg(_range(run), Route.FEED, sum(one.feed_cost for one in run), "the feed reads the fewest bytes")


def _difference(run: list[Footprint], why: str | None = None) -> Leg:
    files: dict[str, int] = {}
    for one in run:
        files.update(one.files)
    cost = _cost(files.values()) + _SCAN_BYTES
    fed = sum(one.feed_cost for one in run)
    reason = why or f"{len(files)} files are read once for {len(run)} epochs ({cost} bytes; the feed reads {fed})"
    return Leg(_range(run), Route.DIFFERENCE, cost, reason)


def _range(run: list[Footprint]) -> EpochRange:
    return EpochRange(run[0].epoch, run[-1].epoch + 1)


def _cost(sizes: Iterable[int]) -> int:
    return sum(size + _FILE_BYTES for size in sizes)
