"""What the table of parcels must hold at offsets of its topic, from the topic's records alone.

The second opinion on the build: what a plain client reads, folded in plain Python. No Spark, no Delta, nothing of the
product, and no landing table.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from confluent_kafka import Message

from demo.journal import Row


def below(records: Iterable[Message], ends: Mapping[int, int]) -> list[Message]:
    """The records before the offset at which ``ends`` says that their partition ends."""
    return [record for record in records if record.offset() < ends.get(record.partition(), 0)]


def fold(records: Iterable[Message]) -> Iterator[Row]:
    """The last record of each key as a row, in no particular order; none for a key whose last record is a tombstone.

    ``records`` come in the order of their partitions.
    """
    last = {record.key(): record for record in records}
    for key, record in last.items():
        if record.value() is not None:
            place = {"partition": record.partition(), "offset": record.offset()}
            yield {**json.loads(key), **json.loads(record.value()), **place}


def parcel(row: Row) -> Row | None:
    """What ``dags/parcels.py`` selects of a row; None where it wants no row."""
    if row["status"] == "returned":
        return None
    kept = {name: row[name] for name in ("id", "status", "depot", "partition", "offset")}
    return {**kept, "kilograms": row["grams"] / 1000}
