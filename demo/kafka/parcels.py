"""The records of the topic ``parcels``: an endless, seeded series in which every parcel has its own key.

Parcels are created, changed and deleted (by a tombstone), and some are created again. A record depends only on the seed
and its number, so a series can be continued at any number.
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
"""The fraction of records without a value."""


def series(seed: int, first: int = 0) -> Iterator[Record]:
    """The records from number ``first`` on."""
    return (record(seed, number) for number in count(first))


def record(seed: int, number: int) -> Record:
    dice = random.Random(f"{seed}/{number}")
    parcel = dice.randrange(1 + number // RECORDS_PER_PARCEL)
    gone = dice.random() < TOMBSTONES
    value = {"status": dice.choice(STATUSES), "depot": f"depot {dice.randrange(100)}", "grams": dice.randrange(31_500)}
    # All records of a key are in one partition, so they stay in order.
    return Record(None if gone else _json(value), _json({"id": parcel}), parcel % PARTITIONS)


def _json(value: object) -> bytes:
    return json.dumps(value).encode()
