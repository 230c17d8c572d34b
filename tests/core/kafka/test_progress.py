from __future__ import annotations

from airflow_backfill.core.kafka.progress import history_done
from airflow_backfill.core.kafka.split import Split
from airflow_backfill.core.kafka.state import Backfilling, CatchingUp, Finished, State


def splits(*states: State) -> dict[int, Split]:
    return {partition: Split(partition, state) for partition, state in enumerate(states)}


def test_history_is_done_when_every_split_has_stopped() -> None:
    assert not history_done([0, 1, 2], splits(Finished(), CatchingUp(9), Backfilling(3)))
    assert history_done([0, 1, 2], splits(Finished(), CatchingUp(9), CatchingUp(3)))


def test_a_split_that_is_not_there_is_not_done_and_one_that_nobody_planned_counts() -> None:
    assert not history_done([0, 1], splits(Finished()))
    assert not history_done([0, 1], {}) and history_done([], {})
    assert not history_done([0], splits(Finished(), Backfilling(5)))
    assert history_done([0], splits(Finished(), Finished()))
