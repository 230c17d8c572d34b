"""What a table's properties say about how long its past is kept."""

from __future__ import annotations

import pytest

from airflow_backfill.core.values.retention import FILES, LOG, Retention

HOUR = 3_600_000


@pytest.mark.parametrize(
    ("interval", "hours"),
    [("interval 1 week", 168), ("interval 30 days", 720), ("INTERVAL 2 Days 3 HOURS", 51), ("7 days", 168),
     ("interval 90 minutes", 1.5), ("interval 0 days", 0), ("interval 0 hours", 0),
     ("interval 1 day -3 hours", 21), ("interval -3 hours", 0), ("interval", 720),
     ("interval one week", 720), ("interval 5 fortnights", 720), ("interval 1 day and a bit", 720),
     ("", 720)],
)  # fmt: skip
def test_intervals(interval: str, hours: float) -> None:
    assert Retention.of({LOG: interval}).log == hours * HOUR


def test_the_defaults_of_delta_and_the_shorter_one_counts() -> None:
    retention = Retention.of({})
    assert (retention.log, retention.files) == (30 * 24 * HOUR, 7 * 24 * HOUR)
    assert retention.shorter == retention.files
    assert Retention.of({LOG: "interval 1 day", FILES: "interval 3 days"}).shorter == 24 * HOUR
