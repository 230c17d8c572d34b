"""Which offsets of a partition the target has, and from where."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_backfill.core.kafka.offsets import MAX
from airflow_backfill.core.kafka.reach import Reach
from airflow_backfill.core.kafka.split import Split
from airflow_backfill.core.kafka.state import Backfilling, CatchingUp, Finished

PLANNED = Split(0, target=99, scanned=9, landed=49, end=100)
READING = replace(PLANNED, state=Backfilling(30), scanned=39, read=30, written=30)
STOPPED = replace(PLANNED, state=CatchingUp(98), scanned=99, cut=98, landed=60)
DONE = replace(STOPPED, state=Finished(), landed=120)


@pytest.mark.parametrize(
    ("split", "planned", "reach"),
    [
        (PLANNED, PLANNED, Reach(10, 9, 9)),
        (READING, PLANNED, Reach(10, 39, 39)),
        (STOPPED, PLANNED, Reach(10, 98, 98)),
        (DONE, PLANNED, Reach(10, 98, 120)),
        (replace(PLANNED, state=Finished(), landed=55), PLANNED, Reach(10, 49, 55)),
        (Split(3, Finished(), landed=7), None, Reach(0, -1, 7)),
        (Split(3, Finished()), None, Reach(0, -1, -1)),
    ],
)
def test_of_a_topic_with_a_landing_table(split: Split, planned: Split | None, reach: Reach) -> None:
    assert Reach.of(split, planned, alone=False) == reach
    assert reach.last == MAX


def test_of_a_topic_alone() -> None:
    """What comes after the pinned end, or in a later partition, is no history."""
    assert Reach.of(READING, PLANNED, alone=True) == Reach(10, 39, 39, last=99)
    done = replace(PLANNED, state=Finished(), scanned=99, cut=98, landed=None)
    assert Reach.of(done, replace(PLANNED, landed=None), alone=True) == Reach(10, 98, 98, last=99)
    assert Reach.of(Split(7), None, alone=True) == Reach(0, -1, -1, last=-1)
