"""A build's rate is what a clock or another signal says, and a person's word counts more."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from unittest.mock import Mock
from zoneinfo import ZoneInfo

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_backfill.builds.ordering import ordered
from airflow_backfill.core.errors import SourceUnavailable
from airflow_backfill.core.values.control import Command, Verb, obey
from airflow_backfill.core.values.limit import Limit
from airflow_backfill.core.values.moment import moment
from airflow_backfill.core.values.signature import Signature
from airflow_backfill.ledger.control_folder import ControlFolder
from airflow_backfill.ledger.reader import BuildReader
from airflow_backfill.operators.throttle import ThrottleOperator, by_the_clock, closes
from airflow_backfill.watching.conditions import window_of
from tests.airflow.without_spark import built

ALWAYS = [("00:00", "12:00", "UTC"), ("12:00", "00:00", "UTC")]


@pytest.fixture
def planned(source, target):
    built(source, target, "plan")
    return target


def throttle(context, target, rate, **options):
    says = {"signal": rate} if callable(rate) else {"rate": rate}
    return ThrottleOperator(task_id="t", target=str(target), **says, **options).execute(context)


def in_force(target):
    reader = BuildReader(str(target))
    state = reader.state()
    return obey(state.control, reader.commands(state.plan.build))


def signatures(target):
    reader = BuildReader(str(target))
    return [(one.rate, one.signed.by, one.signed.why) for _, one in reader.commands(reader.state().plan.build)]


def test_only_a_change_is_a_command(context, planned):
    for rate in (500, "500", 500, 0, "", None):
        throttle(context, planned, rate, why=12)
    assert signatures(planned) == [(rate, "budget", "12") for rate in (500, 0, None)]


def test_old_throttles_are_forgotten_and_what_people_ordered_stays(context, planned, monkeypatch):
    """A signal may change the rate every few minutes for months, and each task of a build reads all commands."""
    monkeypatch.setattr("airflow_backfill.operators.throttle.KEPT_COMMANDS", 3)
    ordered(str(planned), Command(Verb.HOLD, signed=Signature(by="ann")))
    for rate in range(1, 21):
        throttle(context, planned, rate)
    kept = [(None, "ann"), *((rate, "budget") for rate in range(17, 21))]
    assert [(rate, by) for rate, by, _ in signatures(planned)] == kept
    assert (in_force(planned).rate, in_force(planned).held, in_force(planned).number) == (20, True, 21)


def test_a_throttle_takes_effect_although_old_ones_cannot_be_deleted(context, planned, monkeypatch):
    monkeypatch.setattr("airflow_backfill.operators.throttle.KEPT_COMMANDS", 1)
    refused = SourceUnavailable("delete: 403 Forbidden")
    monkeypatch.setattr(ControlFolder, "forget", Mock(side_effect=refused))
    for rate in (1, 2, 3):
        assert throttle(context, planned, rate)["did"] == "throttled"
    assert [rate for rate, _, _ in signatures(planned)] == [1, 2, 3]


def test_a_function_says_how_much_and_why(context, planned):
    def load(given):
        assert given is context
        return Limit(rate=100, byte_rate=2000, why="load is 0.93")

    assert throttle(context, planned, load)["did"] == "throttled"
    assert in_force(planned).rates == (100, 2000)
    assert signatures(planned) == [(100, "budget", "load is 0.93")]
    assert throttle(context, planned, lambda given: 100)["did"] == "throttled"


def test_a_persons_throttle_is_left_alone_until_it_is_lifted(context, planned):
    throttle(context, planned, 500)
    ordered(str(planned), Command(Verb.THROTTLE, 7, signed=Signature(by="ann", why="incident 12")))
    said = throttle(context, planned, 900)
    assert (said["did"], said["why"]) == ("left alone", "throttled by ann: incident 12")
    assert in_force(planned).rate == 7
    ordered(str(planned), Command(Verb.THROTTLE, None, signed=Signature(by="ann")))
    assert throttle(context, planned, 900)["did"] == "throttled"
    assert in_force(planned).rate == 900


def test_a_persons_throttle_that_has_ended_is_over(context, planned):
    soon = time.time_ns() // 1_000_000 + 200
    ordered(str(planned), Command(Verb.THROTTLE, 7, until=soon, signed=Signature(by="ann")))
    while time.time_ns() // 1_000_000 < soon:
        pass
    assert throttle(context, planned, 900)["did"] == "throttled"


def test_without_a_build_there_is_nothing_to_do(context, source, target):
    assert throttle(context, target, 500)["did"] == "nothing"
    built(source, target, "plan")
    ordered(str(target), Command(Verb.CANCEL))
    built(source, target, "cancel")
    assert throttle(context, target, 500)["did"] == "nothing"


def test_a_signal_that_fails_changes_nothing(context, planned):
    throttle(context, planned, 500)

    def broken(context):
        raise ConnectionError("no answer")

    with pytest.raises(ConnectionError):
        throttle(context, planned, broken)
    with pytest.raises(AirflowFailException, match="rate: must be a whole number"):
        throttle(context, planned, "fast")
    assert in_force(planned).rate == 500


def test_a_window_throttles_until_it_closes(context, planned):
    busy = by_the_clock(*((window, 300) for window in ALWAYS))
    assert throttle(context, planned, busy)["did"] == "throttled"
    assert throttle(context, planned, busy)["did"] == "nothing"
    left = in_force(planned).until / 1000 - time.time()
    assert 0 < left <= 12 * 3600
    assert signatures(planned)[0][2].startswith("it is ")


def test_the_first_open_window_counts_and_none_means_no_limit(context, planned):
    free = by_the_clock(*((window, None) for window in ALWAYS), *((window, 300) for window in ALWAYS))
    throttle(context, planned, free)
    assert in_force(planned).rates == (None, None)
    never = by_the_clock((("00:00", "00:00:00.000001", "UTC"), 5))
    assert throttle(context, planned, never)["why"] == "the rate is right already: no window is open"


@pytest.mark.parametrize(
    ("now", "end"),
    [
        ("2026-01-10T23:00", "2026-01-11T06:00"),
        ("2026-01-11T05:59", "2026-01-11T06:00"),
        ("2026-03-28T23:00", "2026-03-29T06:00"),  # the clocks go forward
        ("2026-10-24T23:00", "2026-10-25T06:00"),  # and back
    ],
)
def test_a_window_over_midnight_closes_by_the_clock_on_the_wall(now, end):
    def at(text):
        return round(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo("Europe/Berlin")).timestamp() * 1000)

    assert closes(window_of(("22:00", "06:00", "Europe/Berlin")), at(now)) == at(end)
    assert at(end) - at(now) != 0 and timedelta(milliseconds=at(end) - at(now)) <= timedelta(hours=8)


@pytest.mark.parametrize("stop", ["23:59:59.999999", "06:00:00.000001"])
def test_a_window_that_closes_for_less_than_a_millisecond(stop):
    now, end = moment("now", "2026-01-10T06:00Z"), moment("end", f"2026-01-{11 if stop > '07' else 10}T00:00Z")
    assert closes(window_of(("00:00", stop, "UTC")), now) == max(now, end)


@pytest.mark.parametrize(
    ("window", "now", "end"),
    [
        (("22:00", "02:30"), "2026-10-24T22:00Z", "2026-10-25T00:30Z"),
        (("22:00", "02:30"), "2026-10-25T01:10Z", "2026-10-25T01:30Z"),  # it is 02:10 for the second time
        (("02:15", "02:45"), "2026-10-25T00:20Z", "2026-10-25T00:45Z"),
        (("02:15", "02:45"), "2026-10-25T01:20Z", "2026-10-25T01:45Z"),
        (("02:30", "03:15"), "2026-10-25T00:40Z", "2026-10-25T01:00Z"),  # it is 02:00 again
        (("22:00", "02:30"), "2026-03-29T00:10Z", "2026-03-29T01:00Z"),  # there is no 02:30, it is 03:00 at once
        (("02:45", "02:30"), "2026-03-29T00:40Z", "2026-03-30T00:30Z"),
        (("03:00", "02:00"), "2026-03-29T00:40Z", "2026-03-30T00:00Z"),  # it does not close on that day
    ],
)
def test_a_window_closes_at_the_first_moment_when_it_is_not_open_also_while_clocks_are_changed(window, now, end):
    berlin, at, then = window_of((*window, "Europe/Berlin")), moment("now", now), moment("end", end)
    assert closes(berlin, at) == then
    assert all(berlin.open_at(moment) for moment in (*range(at, then, 60_000), then - 1)) and not berlin.open_at(then)
