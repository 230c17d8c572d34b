"""How the page writes times and numbers. Runs in Node, where there is one."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

import pytest

from airflow_backfill.plugin.api import PAGE

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="needs Node")
MOMENT = 1_769_898_600_000
"""2026-01-31T22:30 in UTC."""


def said(expression: str, stored: str | None = None) -> Any:
    """The value of an expression with ``say``; Airflow's page has stored this time zone in the browser."""
    script = f"""
        globalThis.localStorage = {{ getItem: (name) => name === "timezone" ? {json.dumps(stored)} : null }};
        const say = await import({json.dumps((PAGE / "say.js").as_uri())});
        console.log(JSON.stringify({expression}));
    """
    environment = {"TZ": "UTC", "LANG": "en_US.UTF-8"}
    done = subprocess.run(
        [str(NODE), "--input-type=module", "-e", script], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("stored", "wall"),
    [
        (None, "2026-01-31T22:30"),
        ("not JSON", "2026-01-31T22:30"),
        ('"No/Where"', "2026-01-31T22:30"),
        ('"UTC"', "2026-01-31T22:30"),
        ('"America/New_York"', "2026-01-31T17:30"),
        ('"Asia/Kolkata"', "2026-02-01T04:00"),
    ],
)
def test_times_are_in_the_zone_that_was_chosen_in_airflow(stored: str | None, wall: str) -> None:
    assert said(f"say.instant('{wall}')", stored) == MOMENT
    day, hour = int(wall[8:10]), int(wall[11:13]) % 12
    clock = said(f"say.clock({MOMENT})", stored)
    assert f" {day}, 2026, {hour}:{wall[14:16]}:00" in clock
    assert said(f"say.hour({MOMENT})", stored) in clock


@pytest.mark.parametrize(
    ("wall", "utc"),
    [("2026-03-29T01:30", "00:30"), ("2026-03-29T03:30", "01:30"), ("2026-10-25T03:30", "02:30")],
)
def test_a_time_beside_a_change_to_summer_time_is_the_moment_that_was_meant(wall: str, utc: str) -> None:
    moment = said(f"new Date(say.instant('{wall}')).toISOString()", '"Europe/Berlin"')
    assert moment == f"{wall[:10]}T{utc}:00.000Z"


def test_numbers_are_short_and_unknown_ones_are_a_dash() -> None:
    assert said("[say.short(1234), say.bytes(5), say.bytes(undefined), say.many(1, 'epoch'), say.span(90061000)]") == [
        *("1.2\u202fk", "5\u202fB", "\u2013", "1 epoch", "25 h 1 min"),
    ]
