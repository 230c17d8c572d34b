"""What the committed splits of all lanes prove together.

A split that nobody has written yet does not look unfinished, it is absent. So both questions are asked of the
partitions that there are, never of the splits that exist (docs/behaviours/source.md, S001.44).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from airflow_backfill.core.kafka.split import Split
from airflow_backfill.core.kafka.state import CatchingUp, Finished


def history_done(partitions: Collection[int], splits: Mapping[int, Split]) -> bool:
    """Whether nothing has to be read from Kafka any more: the partitions of the plan and later ones have stopped."""
    return _all_in((CatchingUp, Finished), partitions, splits)


def handed_over(partitions: Collection[int], splits: Mapping[int, Split]) -> bool:
    """Whether every partition of the plan and every later one comes from the landing table alone."""
    return _all_in((Finished,), partitions, splits)


def _all_in(
    states: tuple[type[CatchingUp | Finished], ...], partitions: Collection[int], splits: Mapping[int, Split]
) -> bool:
    return all(p in splits and isinstance(splits[p].state, states) for p in {*partitions, *splits})
