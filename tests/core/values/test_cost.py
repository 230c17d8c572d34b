from __future__ import annotations

import json
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_backfill.core.values.cost import Cost

COSTS = st.builds(Cost, *[st.integers(0, 2**60) for _ in fields(Cost)])
TOLD = {"core_seconds": 1.6, "read_bytes": 7, "written_bytes": 5, "shuffled_bytes": 3, "driver_requests": 2}


@given(COSTS, COSTS)
def test_costs_add_up_and_survive_their_json(a: Cost, b: Cost) -> None:
    assert a + b == b + a and a + Cost() == a
    assert all(getattr(a + b, f.name) == getattr(a, f.name) + getattr(b, f.name) for f in fields(Cost))
    assert Cost.from_json(json.loads(json.dumps(a.to_json()))) == a


def test_an_attempt_that_tells_everything_is_counted() -> None:
    assert Cost.of_attempt(TOLD, 4) == Cost(1, 0, 2, 7, 5, 3, 2, 4)


@pytest.mark.parametrize("odd", [None, "7", -1, float("nan"), float("inf"), True, [1]])
def test_what_an_attempt_does_not_tell_makes_the_sum_a_lower_bound(odd: object) -> None:
    assert Cost.of_attempt({**TOLD, "read_bytes": odd}) == replace(Cost.of_attempt(TOLD), read_bytes=0, uncounted=1)
    assert Cost.of_attempt({}) == Cost(1, 1)


@pytest.mark.parametrize(
    "document", [None, {}, {**Cost().to_json(), "more": 1}, {**Cost().to_json(), "attempts": -1}, [1]]
)
def test_another_document_is_no_cost(document: object) -> None:
    with pytest.raises(ValueError):
        Cost.from_json(document)
