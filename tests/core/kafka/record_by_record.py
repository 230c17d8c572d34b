"""What one record does to its partition's split, record by record: the tables in docs/behaviours/source.md as code.

This is the specification of ``core/kafka/batches.py``, which takes many records at once. Tests compare the two.
"""

from __future__ import annotations

from dataclasses import replace

from airflow_backfill.core.kafka.split import Split
from airflow_backfill.core.kafka.state import Backfilling, CatchingUp, Finished


def upstream_row(split: Split, offset: int) -> tuple[Split, bool]:
    """The split after a row of the landing table, and whether the row is visible; OffsetsInvalid if it is not newer."""
    split.check_landed(offset)
    after = replace(split, landed=offset)
    match split.state:
        case Backfilling(int(b)) if b == offset:
            return replace(after, state=Finished(), cut=b), False
        case Backfilling(int(b)) if b > offset:
            return replace(after, state=CatchingUp(b), cut=b), False
        case Backfilling():
            return replace(after, target=offset, credit=offset), False
        case CatchingUp(b) if offset < b:
            return after, False
        case CatchingUp(b):
            return replace(after, state=Finished()), offset > b
        case Finished():
            return after, True


def backfilled_row(split: Split, offset: int) -> tuple[Split, bool]:
    """The split after a record of Kafka, and whether it is visible; OffsetsInvalid if it was read before.

    A record at the target does not finish the split: the landing table may not have reached the broker's end yet.
    """
    split.check_read(offset)
    after = replace(split, read=split.read + 1, scanned=offset)
    if not isinstance(split.state, Backfilling):
        return after, False
    after = replace(after, written=split.written + 1)
    if split.target is None or offset < split.target:
        return replace(after, state=Backfilling(offset)), True
    return replace(after, state=CatchingUp(offset), cut=offset), True
