from __future__ import annotations

import json
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_backfill.core.errors import RecordInvalid
from airflow_backfill.core.values.totals import Totals

TOTALS = st.builds(Totals, *[st.integers(0, 2**62) for _ in fields(Totals)])


@given(TOTALS, TOTALS, TOTALS)
def test_totals_add_up_in_any_order(a: Totals, b: Totals, c: Totals) -> None:
    assert (a + b) + c == a + (b + c) and a + b == b + a
    assert a + Totals() == a
    for name in (f.name for f in fields(Totals)):
        assert getattr(a + b, name) == getattr(a, name) + getattr(b, name)


@given(TOTALS)
def test_totals_survive_their_json(totals: Totals) -> None:
    shown = totals.to_json()
    assert Totals.from_json(json.loads(json.dumps(shown))) == totals and 0 not in shown.values()


@pytest.mark.parametrize(
    "value",
    [None, 3, [], "x", {"rows": 1}, {"log_rows": -1}, {"log_rows": 1.0}, {"log_rows": True}, {"log_rows": None}],
    ids=repr,
)
def test_what_is_no_total_is_refused(value: object) -> None:
    with pytest.raises(RecordInvalid, match="totals"):
        Totals.from_json(value)
