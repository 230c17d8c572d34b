"""What the committed splits of all lanes prove together.

A split that is not written yet is absent, not unfinished. So the known partitions count, not only the splits
(docs/behaviours/source.md, S001.44).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from airflow_backfill.core.errors import PartitionIncomplete
from airflow_backfill.core.kafka.split import Split
from airflow_backfill.core.kafka.state import CatchingUp, Finished


def history_done(partitions: Collection[int], splits: Mapping[int, Split]) -> bool:
    """Whether nothing is left to read from Kafka: all backfills, those of later partitions included, have stopped."""
    return all(p in splits and isinstance(splits[p].state, CatchingUp | Finished) for p in {*partitions, *splits})


def check_finished(splits: Mapping[int, Split]) -> None:
    """Raise PartitionIncomplete if a new partition has records that did not land."""
    for split in splits.values():
        if not isinstance(split.state, Finished):
            raise PartitionIncomplete(
                f"partition {split.partition} is new, but not all of it has landed: let the ingestion land it "
                "from its first offset, set round_rows and round_bytes so that one round holds everything that has "
                "landed since, and clear the task; or plan again with on_existing='restart'",
                partition=split.partition,
            )
