from __future__ import annotations

import pytest

from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.core.values.interruption import Begun

PAUSE, RESUME, CANCEL = Command(Verb.PAUSE), Command(Verb.RESUME), Command(Verb.CANCEL)


def throttle(rate: int | None = None, byte_rate: int | None = None) -> Command:
    return Command(Verb.THROTTLE, rate, byte_rate=byte_rate)


def test_a_throttle_that_has_ended_counts_no_more() -> None:
    """A slower rate than none interrupts, although it is faster than the one that has ended."""
    before = [(1, Command(Verb.THROTTLE, 5, until=1_000))]
    assert Begun.under(before, 1_000, spared=False).stopped_by([*before, (2, throttle(50))]) == "slower"
    assert Begun.under(before, 999, spared=False).stopped_by([*before, (2, throttle(50))]) is None


def stopped(before: list[Command], after: list[Command], *, spared: bool = False) -> str | None:
    numbered = list(enumerate([*before, *after], start=1))
    return Begun.under(numbered[: len(before)], 0, spared=spared).stopped_by(numbered)


@pytest.mark.parametrize(
    ("before", "after", "by"),
    [
        ([], [], None),
        ([], [PAUSE], "paused"),
        ([], [CANCEL], "cancelled"),
        ([], [PAUSE, RESUME], None),
        ([PAUSE], [], None),
        ([PAUSE, RESUME], [PAUSE], "paused"),
        ([], [Command(Verb.HOLD)], None),
        ([], [throttle(5)], "slower"),
        ([], [throttle(byte_rate=5)], "slower"),
        ([], [throttle(0)], "slower"),
        ([throttle(5)], [throttle(4)], "slower"),
        ([throttle(5)], [throttle(50)], None),
        ([throttle(5)], [throttle(None)], None),
        ([throttle(0)], [throttle(5)], None),
        # The first of these was lifted before the round began.
        ([CANCEL], [], None),
        ([CANCEL], [CANCEL], "cancelled"),
    ],
)
def test_what_people_call_back_stops_and_what_was_in_force_does_not(
    before: list[Command], after: list[Command], by: str | None
) -> None:
    assert stopped(before, after) == by


def test_what_is_spared_is_stopped_by_a_cancel_only() -> None:
    assert stopped([], [PAUSE, throttle(1)], spared=True) is None
    assert stopped([], [CANCEL], spared=True) == "cancelled"
