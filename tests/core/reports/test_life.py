from __future__ import annotations

import pytest

from airflow_backfill.core.reports.life import SILENT_MS, STARTING_MS, Life, Signs, life

NOW = 10_000_000


@pytest.mark.parametrize(
    ("signs", "expected"),
    [
        (Signs(NOW, NOW, ended=True, superseded=True), Life.ENDED),
        (Signs(NOW, NOW, ended=False, superseded=True), Life.SUPERSEDED),
        (Signs(None, NOW - SILENT_MS, ended=False, superseded=False), Life.RUNNING),
        (Signs(NOW, NOW - SILENT_MS - 1, ended=False, superseded=False), Life.SILENT),
        (Signs(NOW - STARTING_MS, None, ended=False, superseded=False), Life.STARTING),
        (Signs(NOW - STARTING_MS - 1, None, ended=False, superseded=False), Life.SILENT),
        (Signs(None, None, ended=False, superseded=False), Life.UNKNOWN),
        # A clock that is ahead makes nobody dead.
        (Signs(NOW + 10**9, NOW + 10**9, ended=False, superseded=False), Life.RUNNING),
    ],
)
def test_what_an_attempt_left_behind_says_whether_it_lives(signs: Signs, expected: Life) -> None:
    assert life(signs, NOW) is expected
