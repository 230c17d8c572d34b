"""The window on the clocks of its zone, and the bound on the lag."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from airflow_backfill.core.errors import InvalidSpec
from airflow_backfill.core.gates.max_lag import MaxLag
from airflow_backfill.core.gates.window import Window
from airflow_backfill.watching.conditions import high_water, max_lag_of, window_of

NIGHT = window_of(("22:00", "06:00", "Europe/Berlin"))


def utc(text):
    return int(datetime.fromisoformat(text).replace(tzinfo=timezone.utc).timestamp() * 1000)


@pytest.mark.parametrize(
    ("moment", "is_open"),
    [
        ("2026-01-10 20:59:59", False),
        ("2026-01-10 21:00:00", True),
        ("2026-01-10 23:30:00", True),
        ("2026-01-11 04:59:59", True),
        ("2026-01-11 05:00:00", False),
        # In summer the same clocks are an hour earlier.
        ("2026-07-10 19:59:59", False),
        ("2026-07-10 20:00:00", True),
        ("2026-07-11 04:00:00", False),
        # The night in which an hour is missing, and the one that has it twice.
        ("2026-03-29 01:30:00", True),
        ("2026-03-29 04:00:00", False),
        ("2026-10-25 00:30:00", True),
        ("2026-10-25 05:00:00", False),
    ],
)
def test_a_window_that_spans_midnight(moment, is_open):
    assert NIGHT.open_at(utc(moment)) is is_open


@pytest.mark.parametrize(("moment", "is_open"), [("09:59:59", False), ("10:00:00", True), ("11:00:00", False)])
def test_a_window_within_a_day(moment, is_open):
    window = window_of(["10:00", "11:00", "UTC"])
    assert window.open_at(utc(f"2026-01-10 {moment}")) is is_open


def test_a_window_survives_json():
    assert Window.from_json(NIGHT.to_json()) == NIGHT


@pytest.mark.parametrize(
    "value",
    [
        None,
        (),
        "22:00-06:00",
        ("22:00", "06:00"),
        ("22:00", "22:00", "UTC"),
        ("25:00", "06:00", "UTC"),
        ("22:00", "06:00", "Europe/Atlantis"),
        ("22:00", "06:00", None),
        ("22:00", "06:00", 7200),
        (22, 6, "UTC"),
        ("22:00+01:00", "06:00", "UTC"),
    ],
)
def test_what_is_no_window(value):
    with pytest.raises(InvalidSpec, match="window"):
        window_of(value)


@pytest.mark.parametrize(
    ("value", "lag"), [(0, MaxLag(epochs=0)), (7, MaxLag(epochs=7)), (timedelta(minutes=5), MaxLag(age=300_000))]
)
def test_a_bound(value, lag):
    assert max_lag_of(value) == lag


@pytest.mark.parametrize("value", [-1, 1.5, True, "10", None, timedelta(seconds=-1)])
def test_what_is_no_bound(value):
    with pytest.raises(InvalidSpec, match="max_lag"):
        max_lag_of(value)


def test_the_high_water_mark_is_twice_the_bound():
    assert high_water(MaxLag(epochs=4)) == MaxLag(epochs=8)
    assert high_water(MaxLag(age=1000)) == MaxLag(age=2000)
