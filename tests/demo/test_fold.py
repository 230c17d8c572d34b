from __future__ import annotations

import random
from dataclasses import replace
from decimal import Decimal

import pytest

from demo.fold import compare, fold
from demo.journal import Entry, Operation

INITIAL = [{"k": k, "v": Decimal(k), "n": None} for k in range(100)]


def row(k, v="0.0"):
    return {"k": k, "v": Decimal(v), "n": "x"}


def entry(number, version, upserts=(), deletes=()):
    operation = Operation("t", "merge", tuple(upserts), tuple(deletes))
    return Entry(number, number, f"j/{number}", version - 1, operation, "ok", version)


HISTORY = [
    entry(1, 2, [row(200), row(201)]),
    entry(2, 3, [row(200, "1.0")], [(5,)]),
    entry(3, 5, [row(5, "5.5")], [(201,)]),
    entry(4, 6, [], [(5,)]),
    replace(entry(5, 6, [row(7, "9.9")]), outcome="failed", version=None),
]


def state(upto):
    return {each["k"]: each for each in fold(INITIAL, HISTORY, "t", ["k"], upto)}


def test_a_version_holds_what_came_up_to_it():
    base = {each["k"]: each for each in INITIAL}
    without_5 = {k: each for k, each in base.items() if k != 5}
    assert state(1) == base
    assert state(2) == {**base, 200: row(200), 201: row(201)}
    assert state(3) == state(4) == {**without_5, 200: row(200, "1.0"), 201: row(201)}
    assert state(5) == {**without_5, 200: row(200, "1.0"), 5: row(5, "5.5")}
    assert state(6) == state(99) == {**without_5, 200: row(200, "1.0")}


def test_order_is_the_order_of_versions_and_tables_are_apart():
    other = replace(HISTORY[0], operation=replace(HISTORY[0].operation, table="u", upserts=(row(999),)))
    shuffled = [*reversed(HISTORY), other]
    assert {each["k"]: each for each in fold(INITIAL, shuffled, "t", ["k"], 6)} == state(6)


def test_an_unknown_outcome_is_not_guessed():
    pending = replace(entry(6, 6, [row(300)]), outcome="unknown", version=None)
    assert len(list(fold(INITIAL, [pending], "t", ["k"], 5))) == 100
    with pytest.raises(ValueError, match="operation 6 is unknown"):
        list(fold(INITIAL, [pending], "t", ["k"], 6))


def test_two_operations_cannot_be_one_version():
    with pytest.raises(ValueError, match="two operations"):
        list(fold(INITIAL, [entry(1, 2), entry(2, 2)], "t", ["k"], 2))


def test_differences_are_told_apart():
    actual = [each for each in INITIAL if each["k"] not in (3, 4)]
    actual[0] = row(0)
    difference = compare(INITIAL, [*actual, row(500), actual[1], actual[1]], ["k"])
    assert (difference.missing, difference.extra) == ([(3,), (4,)], [(500,)])
    assert (difference.stale, difference.duplicate) == ([(0,)], [(1,), (1,)])
    assert (difference.expected, difference.equal) == (100, False)
    assert str(difference) == (
        "2 missing (e.g. [(3,), (4,)]), 1 extra (e.g. [(500,)]), 1 stale (e.g. [(0,)]), 2 duplicate (e.g. [(1,), (1,)])"
    )


def test_equal_rows_are_equal_in_any_order_of_rows_and_columns():
    shuffled = [dict(reversed(each.items())) for each in INITIAL]
    random.Random(1).shuffle(shuffled)
    assert str(compare(INITIAL, shuffled, ["k"])) == "equal, 100 rows"


@pytest.mark.parametrize("wrong", [Decimal("1.00"), 1, "1", None, Decimal("-1"), 1.0, True], ids=repr)
def test_a_value_is_not_equal_to_one_that_only_looks_alike(wrong):
    assert compare([{"k": 1, "v": Decimal("1")}], [{"k": 1, "v": wrong}], ["k"]).stale == [(1,)]


def test_swapped_values_and_other_columns_are_stale():
    expected = [{"k": 1, "a": None, "b": 1}]
    assert compare(expected, [{"k": 1, "a": 1, "b": None}], ["k"]).stale == [(1,)]
    assert compare(expected, [{"k": 1, "a": None, "b": 1, "c": None}], ["k"]).stale == [(1,)]


def test_the_transform_is_applied_to_what_is_expected_only():
    def even_halves(each):
        return {"half": each["k"] // 2} if each["k"] % 2 == 0 else None

    assert compare(INITIAL, [{"half": k} for k in range(50)], ["half"], even_halves).equal
    difference = compare(INITIAL, [{"half": k} for k in range(1, 51)], ["half"], even_halves)
    assert (difference.expected, difference.missing, difference.extra) == (50, [(0,)], [(50,)])
