from __future__ import annotations

from decimal import Decimal

import pytest

from demo.dialect import literal, matching
from demo.engine import ENGINES, open_engine
from demo.fold import compare
from demo.journal import Operation
from demo.load import BASE_VERSION
from demo.reading import by_delta_rs
from demo.tpch import ORDERS, rows


def test_a_predicate_names_the_keys_and_no_others():
    assert matching(["k"], [(3,), (1,)]) == "k IN (1, 3)"
    assert matching(["k", "n"], [(3, 1), (1, 2), (3, 2)]) == "(k = 1 AND n IN (2)) OR (k = 3 AND n IN (1, 2))"


def test_a_literal_is_sql():
    assert (literal("it's"), literal(Decimal("0.07"))) == ("'it''s'", "0.07")


@pytest.mark.spark
@pytest.mark.parametrize("name", ENGINES)
def test_a_merge_deletes_what_is_there_and_adds_nothing_for_what_is_not(spark, raw, tables, name):
    kept = list(rows(raw, ORDERS))[1:]
    changed = {**kept[0], "o_comment": "it's changed"}
    operation = Operation(ORDERS.name, "merge", (changed,), ((1,), (9,)))
    open_engine(name, tables).apply(operation, "marker")
    difference = compare([changed, *kept[1:]], by_delta_rs(tables / ORDERS.name, BASE_VERSION + 1), ORDERS.key)
    assert difference.equal, difference
