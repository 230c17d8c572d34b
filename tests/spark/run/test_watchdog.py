"""When an application is taken for one that its cluster has forgotten."""

from __future__ import annotations

import pytest

from airflow_backfill.spark.run.watchdog import PATIENCE_SECONDS, Executors

LONG = PATIENCE_SECONDS


@pytest.mark.parametrize(
    ("looks", "gone"),
    [
        ([(0, 2, 1), (1, 0, 1), (1 + LONG, 0, 1)], True),
        ([(0, 2, 1), (1, 0, 1), (LONG, 0, 1)], False),
        ([(0, 0, 1), (LONG, 0, 1), (2 * LONG, 0, 1)], False),  # it waits for its first one, as in a queue
        ([(0, 2, 1), (1, 0, 1), (2, 0, 0), (3 + LONG, 0, 1)], False),  # nothing had to be done
        ([(0, 2, 1), (1, 0, 1), (2, 1, 1), (3 + LONG, 0, 1)], False),  # one came back
    ],
)
def test_executors_are_gone_for_good_if_a_job_waits_for_long(looks: list[tuple[float, int, int]], gone: bool) -> None:
    """Each look: its time, the executors and the jobs then."""
    seen = dict[str, float]()
    executors = Executors(lambda: (int(seen["executors"]), int(seen["jobs"])), lambda: seen["now"])
    for now, there, jobs in looks:
        seen |= {"now": now, "executors": there, "jobs": jobs}
        found = executors.gone_for_good()
    assert found == gone
