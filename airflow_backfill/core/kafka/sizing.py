"""How many records a round reads from each partition of a topic.

Kafka does not say how large records are before they are read. The records read last tell, and before the first ones a
round is small. If records suddenly grow, that may be wrong a thousandfold: so the end of a round is looked at before
the round is read, and the round is halved until the end fits. What cannot be seen is a burst of large records inside of
a round with small ones at its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from airflow_backfill.core.kafka.offsets import Offsets
from airflow_backfill.core.kafka.scan import next_range
from airflow_backfill.core.kafka.split import Split
from airflow_backfill.core.values.round_size import RoundSize

RECORD_BYTES = 1_000
"""A guess, until records were read."""
FIRST_RECORDS = 10_000
"""Records of a build's first round: how large they are is unknown before."""
LARGE_RECORD = 1 << 20
"""By default, brokers accept no larger batch."""
LOOK = 100
"""Offsets at the end of a round that are looked at, or one in each partition."""
TOLERANCE = 2
"""A round may be this many times too large."""


def quota(size: RoundSize, rows: int, bytes: int) -> int:
    """Number of records of a round, if the last ``rows`` records had ``bytes``; at least 1."""
    if rows:
        return max(min(size.rows, size.bytes // max(bytes // rows, 1)), 1)
    return max(min(size.rows, size.bytes // RECORD_BYTES, FIRST_RECORDS), 1)


def shared(splits: Iterable[Split], records: int) -> dict[int, Offsets]:
    """The offsets of a round: partitions share ``records`` evenly; what one does not need goes to the others. Each of
    them reads one offset at least.
    """
    reading = sorted((split for split in splits if split.left), key=lambda split: split.left)
    ranges = {}
    for place, split in enumerate(reading):
        found = next_range(split, max(records // (len(reading) - place), 1))
        if found is not None:
            ranges[split.partition] = found
            records -= len(found)
    return ranges


def fits_any(ranges: Mapping[int, Offsets], size: RoundSize) -> bool:
    """Whether a round is small enough even if all of its records are as large as brokers accept."""
    return _count(ranges) <= max(size.bytes // LARGE_RECORD, len(ranges))


def ends(ranges: Mapping[int, Offsets]) -> dict[int, Offsets]:
    """The last offsets of each range."""
    each = max(LOOK // len(ranges), 1)
    return {n: Offsets(max(some.start, some.stop - each), some.stop) for n, some in ranges.items()}


def too_large(ranges: Mapping[int, Offsets], bytes: int, size: RoundSize) -> bool:
    """Whether a round far exceeds ``size``, if all of it is like its ``ends``, which have ``bytes``."""
    return bytes * _count(ranges) > TOLERANCE * size.bytes * _count(ends(ranges))


def halved(splits: Iterable[Split], ranges: Mapping[int, Offsets]) -> dict[int, Offsets]:
    """The offsets of a round of half the size."""
    return shared(splits, max(_count(ranges) // 2, 1))


def _count(ranges: Mapping[int, Offsets]) -> int:
    return sum(map(len, ranges.values()))
