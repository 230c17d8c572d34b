from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_backfill.core.errors import NotConverging, RecordInvalid
from airflow_backfill.core.values.bound import Bound, check_converging

PENDING = st.integers(0, 200)


@given(PENDING, st.lists(PENDING, max_size=80))
def test_the_bound_follows_its_rule(start: int, pending: list[int]) -> None:
    """``bound := min(pending after taking, max(bound - 1, 0))``, on numbers that no one else computes: it falls by one
    a round at least, until nothing.
    """
    bound, value = Bound.initial(start), start
    for left in pending:
        bound, value = bound.take(left), min(left, max(value - 1, 0))
        assert (bound.value, bound.start) == (value, start)


@given(st.integers(0, 100))
def test_without_new_epochs_each_round_contracts(start: int) -> None:
    bound = Bound.initial(start)
    for left in range(start - 1, -1, -1):
        bound = bound.take(left)
        assert (bound.value, bound.stalled) == (left, 0)
    assert bound.take(0).stalled == 0


def test_one_arrival_a_round_ends_as_not_converging_and_not_in_a_loop() -> None:
    bound = Bound.initial(100)
    for _ in range(100):
        bound = bound.take(100)
    assert bound == Bound(start=100, value=0, stalled=99, least=100)
    with pytest.raises(NotConverging, match="99 rounds in a row"):
        check_converging(bound, 100, patience=99, rate_limited=False)


@pytest.mark.parametrize("patience", [1, 2, 7])
def test_patience_ends_exactly_there(patience: int) -> None:
    bound = Bound.initial(10).take(10)
    for taken in range(1, patience + 1):
        check_converging(bound, 10, patience, rate_limited=False)
        bound = bound.take(10)
        assert bound.stalled == taken
    with pytest.raises(NotConverging) as raised:
        check_converging(bound, 12, patience, rate_limited=False)
    said = {"pending": 12, "bound": max(9 - patience, 0), "start": 10, "rounds": patience, "throttled": False}
    assert raised.value.data == said


@pytest.mark.parametrize(
    ("start", "left", "stalled"),
    [(10, [10, 10, 10], 2), (10, [10, 10, 10, 6], 0), (0, [49, 50] * 6, 11)],
    ids=["stalled", "kept once", "up and down"],
)
def test_only_a_round_that_keeps_to_the_bound_begins_the_count_again(start: int, left: list[int], stalled: int) -> None:
    bound = Bound.initial(start)
    for pending in left:
        bound = bound.take(pending)
    assert bound.stalled == stalled


@given(st.integers(1, 200), st.integers(1, 20))
def test_a_burst_after_the_bound_has_reached_nothing_may_be_worked_off(burst: int, rounds: int) -> None:
    """What came while the gate was closed: the bound cannot grow again, and each round leaves less all the same."""
    bound = Bound.initial(3).take(0).renewed()
    for left in range(burst, 0, -rounds):
        bound = bound.take(left)
        assert (bound.value, bound.stalled) == (0, 0)


def test_a_new_attempt_measures_its_own_rounds_and_keeps_the_bound() -> None:
    bound = Bound.initial(10).take(5).take(5).take(5)
    assert bound == Bound(10, 3, stalled=2, least=5) and bound.renewed() == Bound(10, 3)
    assert bound.renewed().take(8) == Bound(10, 2, stalled=0, least=8)
    assert bound.renewed().take(8).take(8).stalled == 1


def test_the_throttle_is_named_as_the_cause() -> None:
    with pytest.raises(NotConverging, match="throttle"):
        check_converging(Bound(5, 0, stalled=3), 9, patience=3, rate_limited=True)
    with pytest.raises(NotConverging, match="commit faster"):
        check_converging(Bound(5, 0, stalled=3), 9, patience=3, rate_limited=False)


@given(PENDING, st.lists(PENDING, max_size=8))
def test_a_bound_survives_its_json(start: int, pending: list[int]) -> None:
    bound = Bound.initial(start)
    for left in pending:
        bound = bound.take(left)
    assert Bound.from_json(json.loads(json.dumps(bound.to_json()))) == bound


@pytest.mark.parametrize(
    "value",
    [None, 3, "3210", [], [1, 1, 0, 0], {}, {"start": 1, "value": 1, "stalled": 0},
     {"start": 1, "value": 1, "stalled": 0, "least": 0, "more": 1},
     *(dict(zip(("start", "value", "stalled", "least"), numbers, strict=True)) for numbers in
       ((1, 2, 0, 0), (-1, -1, 0, 0), (2, -1, 0, 0), (2, 1, -1, 0), (2.0, 1, 0, 0), (2, "1", 0, 0), (True, 1, 0, 0),
        (2, True, 0, 0), (2, 1, False, 0), (2, 1, 0, -1), (2, 1, 0, True), (2, 1, 0, "0")))],
    ids=repr,
)  # fmt: skip
def test_what_is_no_bound_is_refused(value: object) -> None:
    with pytest.raises(RecordInvalid, match="not a bound"):
        Bound.from_json(value)
