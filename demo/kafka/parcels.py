"""The records of the topic ``parcels``: an endless, seeded series in which every parcel has its own key.

Parcels appear, change and vanish (a tombstone), and some come back. Record n depends on the seed and on n, on nothing
else, so that a series can be gone on with anywhere.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import count

from demo.kafka.topic import Record

PARTITIONS = 4
STATUSES = ("accepted", "sorted", "on the way", "delivered", "returned")
RECORDS_PER_PARCEL = 3
TOMBSTONES = 0.1
"""The part of the records that has no value."""


def series(seed: int, first: int = 0) -> Iterator[Record]:
    """The records from number ``first`` on."""
    return (record(seed, number) for number in count(first))


def record(seed: int, number: int) -> Record:
    dice = random.Random(f"{seed}/{number}")
    parcel = dice.randrange(1 + number // RECORDS_PER_PARCEL)
    gone = dice.random() < TOMBSTONES
    value = {"status": dice.choice(STATUSES), "depot": f"depot {dice.randrange(100)}", "grams": dice.randrange(31_500)}
    # Records of a key are in one partition, which keeps them in their order.
    return Record(None if gone else _json(value), _json({"id": parcel}), parcel % PARTITIONS)


def _json(value: object) -> bytes:
    return json.dumps(value).encode()
