from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_backfill.core.errors import NotConverging, RecordInvalid
from airflow_backfill.core.lag import Bound, check_converging

PENDING = st.integers(0, 200)


@given(PENDING, st.lists(PENDING, max_size=80))
def test_the_bound_falls_by_one_a_round_at_least_until_nothing(start: int, pending: list[int]) -> None:
    bound = Bound.initial(start)
    for left in pending:
        next_bound = bound.take(left)
        assert next_bound.value == 0 or next_bound.value < bound.value
        assert next_bound.value <= left
        assert next_bound.start == start
        bound = next_bound


@given(PENDING, st.lists(PENDING, min_size=1, max_size=80))
def test_the_bound_is_the_one_of_the_seeds(start: int, pending: list[int]) -> None:
    """``bound := min(pending after taking, max(bound - 1, 0))``, on numbers that no one else computes."""
    bound, value = Bound.initial(start), start
    for left in pending:
        bound, value = bound.take(left), min(left, max(value - 1, 0))
    assert bound.value == value


@given(st.integers(0, 100))
def test_without_new_epochs_each_round_contracts(start: int) -> None:
    bound = Bound.initial(start)
    for left in range(start - 1, -1, -1):
        bound = bound.take(left)
        assert (bound.value, bound.stalled) == (left, 0)
    assert bound.take(0) == Bound(start, 0)


def test_one_arrival_a_round_ends_as_not_converging_and_not_in_a_loop() -> None:
    bound = Bound.initial(100)
    for _ in range(100):
        bound = bound.take(100)
    assert bound == Bound(start=100, value=0, stalled=100)
    with pytest.raises(NotConverging, match="100 rounds in a row"):
        check_converging(bound, 100, patience=100, rate_limited=False)


@pytest.mark.parametrize("patience", [1, 2, 7])
def test_patience_ends_exactly_there(patience: int) -> None:
    bound = Bound.initial(10)
    for taken in range(1, patience + 1):
        check_converging(bound, 10, patience, rate_limited=False)
        bound = bound.take(10)
        assert bound.stalled == taken
    with pytest.raises(NotConverging) as raised:
        check_converging(bound, 12, patience, rate_limited=False)
    assert raised.value.data == {
        "pending": 12,
        "bound": 10 - patience,
        "start": 10,
        "rounds": patience,
        "throttled": False,
    }


def test_one_round_that_contracts_begins_the_count_again() -> None:
    stalled = Bound.initial(10).take(10).take(10)
    assert stalled == Bound(10, 8, stalled=2)
    assert stalled.take(7).stalled == 0


def test_the_throttle_is_named_as_the_cause() -> None:
    with pytest.raises(NotConverging, match="throttle"):
        check_converging(Bound(5, 0, stalled=3), 9, patience=3, rate_limited=True)
    with pytest.raises(NotConverging, match="committed to faster"):
        check_converging(Bound(5, 0, stalled=3), 9, patience=3, rate_limited=False)


@given(PENDING, st.lists(PENDING, max_size=8))
def test_a_bound_survives_its_json(start: int, pending: list[int]) -> None:
    bound = Bound.initial(start)
    for left in pending:
        bound = bound.take(left)
    assert Bound.from_json(json.loads(json.dumps(bound.to_json()))) == bound


@pytest.mark.parametrize(
    "value",
    [None, 3, "321", [], [1, 1], [1, 1, 1, 1], [1, 2, 0], [-1, -1, 0], [2, -1, 0], [2, 1, -1], [2.0, 1, 0],
     [2, "1", 0], [True, 1, 0], [2, True, 0], [2, 1, False]],
    ids=repr,
)  # fmt: skip
def test_what_is_no_bound_is_refused(value: object) -> None:
    with pytest.raises(RecordInvalid, match="not a bound"):
        Bound.from_json(value)
