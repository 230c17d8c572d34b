"""Only what is certain is told of a clock, and of each machine once."""

from __future__ import annotations

from airflow_backfill.core.reports.attempt_status import APART_MS, AttemptStatus, Life
from airflow_backfill.core.reports.clocks import doubts
from tests.core.states import V, view

NOW, HOUR = 100 * 3_600_000, 3_600_000


def attempt(drawn: int | None, started: int | None, seen: int | None = None, generation: int = 4) -> AttemptStatus:
    return AttemptStatus(generation, "me", "snapshot", Life.RUNNING, drawn=drawn, started=started, seen=seen)


def test_clocks_that_may_be_right_are_not_doubted() -> None:
    right = attempt(NOW - 5_000, NOW - 1_000, NOW)
    slow = attempt(NOW - 3 * HOUR, NOW - HOUR, NOW - HOUR)
    nearly = attempt(NOW, NOW - APART_MS, NOW + APART_MS)
    assert doubts([right, slow, nearly, attempt(None, None)], view(V + 2, at=NOW + APART_MS), NOW) == []


def test_a_driver_that_began_before_its_task_is_behind() -> None:
    older = attempt(NOW - 3 * HOUR, NOW - 5 * HOUR, generation=3)
    assert doubts([older, attempt(NOW, NOW - 3 * HOUR)], None, NOW) == [
        "the clock of the driver of attempt 4 (snapshot) is at least 3.0 hours behind its worker's"
    ]


def test_whoever_writes_in_the_future_is_ahead() -> None:
    driver, worker = attempt(NOW - 5_000, NOW + 3 * HOUR), attempt(NOW + 2 * HOUR, None, generation=5)
    assert doubts([driver, worker], view(V + 2, at=NOW + 4 * HOUR), NOW) == [
        "the clock of the source's writers is at least 4.0 hours ahead of this machine's: how long epochs have been "
        "pending is not known",
        "the clock of the driver of attempt 4 (snapshot) is at least 3.0 hours ahead of this machine's",
        "the clock of the worker of attempt 5 (snapshot) is at least 2.0 hours ahead of this machine's",
    ]
