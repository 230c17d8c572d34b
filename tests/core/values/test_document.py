from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_backfill.core.values.document import encode, fingerprint

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_a_value_has_one_text_and_the_text_one_value(value: object) -> None:
    text = encode(value)
    assert json.loads(text) == value and encode(json.loads(text)) == text


@given(st.dictionaries(TEXTS, st.integers(), min_size=2))
def test_the_order_of_keys_does_not_matter(value: dict[str, int]) -> None:
    turned = dict(reversed(value.items()))
    assert encode(turned) == encode(value) and fingerprint(turned) == fingerprint(value)


def test_a_fingerprint_is_32_hex_digits_and_never_changes() -> None:
    assert fingerprint({"b": [1, "ü"], "a": None}) == "6bafd57c7869b3aca54e576a5157b40c"
    assert re.fullmatch(r"[0-9a-f]{32}", fingerprint(None))
    assert fingerprint([1, 2]) != fingerprint([12])


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_what_json_cannot_say_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        encode([value])
