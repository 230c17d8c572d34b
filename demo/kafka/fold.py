"""The rows of the table of parcels at given offsets, computed only from the topic's records.

An independent check of the build: a plain client and plain Python. No Spark, no Delta, no code of the product, and no
landing table.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from confluent_kafka import Message

from demo.journal import Row


def below(records: Iterable[Message], ends: Mapping[int, int]) -> list[Message]:
    """The records before the end offset of their partition."""
    return [record for record in records if record.offset() < ends.get(record.partition(), 0)]


def fold(records: Iterable[Message]) -> Iterator[Row]:
    """The last record of each key as a row, in no particular order; no row if it is a tombstone.

    The ``records`` of a partition are in the order of their offsets.
    """
    last = {record.key(): record for record in records}
    for key, record in last.items():
        if record.value() is not None:
            place = {"partition": record.partition(), "offset": record.offset()}
            yield {**json.loads(key), **json.loads(record.value()), **place}


def parcel(row: Row) -> Row | None:
    """``select`` and ``where`` of ``dags/parcels.py`` for one row; None if ``where`` filters it out."""
    if row["status"] == "returned":
        return None
    kept = {name: row[name] for name in ("id", "status", "depot", "partition", "offset")}
    return {**kept, "kilograms": row["grams"] / 1000}
