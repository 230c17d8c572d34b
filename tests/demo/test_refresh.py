from __future__ import annotations

import pytest

from demo.journal import Operation
from demo.refresh import ACTIONS, BLOCK, USED, Refresh, hot_orders
from demo.tpch import LINEITEM, ORDERS, TABLES, rows

STEPS = 40 * len(ACTIONS)


@pytest.fixture(scope="module")
def orders(raw):
    return hot_orders(raw)


@pytest.fixture(scope="module")
def series(orders):
    refresh = Refresh(1, 10, orders)
    return [refresh.step() for _ in range(STEPS)]


@pytest.fixture(scope="module")
def crowded(orders):
    """A series over so few orders that the same keys are changed, deleted and taken again all the time."""
    refresh = Refresh(1, 6, orders[:24])
    return [refresh.step() for _ in range(10 * STEPS)]


def of_table(series, table) -> list[Operation]:
    return [operation for step in series for operation in step if operation.table == table.name]


def test_a_small_table_is_hot_as_a_whole(raw, orders):
    assert [order.head for order in orders] == list(rows(raw, ORDERS))
    lines = [line for order in orders for line in order.lines]
    assert sorted(map(str, lines)) == sorted(map(str, rows(raw, LINEITEM)))


def test_the_seed_decides(orders, series):
    again, other = Refresh(1, 10, orders), Refresh(2, 10, orders)
    assert [again.step() for _ in range(STEPS)] == series
    assert [other.step() for _ in range(STEPS)] != series


@pytest.mark.parametrize("name", ["series", "crowded"])
@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_every_operation_fits_the_rows_that_are_there(request, raw, name, table):
    series = request.getfixturevalue(name)
    live = {tuple(row[column] for column in table.key): row for row in rows(raw, table)}
    start = len(live)
    for operation in of_table(series, table):
        keys = [tuple(row[column] for column in table.key) for row in operation.upserts]
        touched = [*keys, *operation.deletes]
        assert len(touched) == len(set(touched)) == operation.rows
        assert set(operation.deletes) <= live.keys()
        if operation.kind == "append":
            assert live.keys().isdisjoint(keys)
        if operation.kind == "update":
            assert list(operation.upserts) == [{**live[key], **operation.assignments} for key in keys]
        for key in operation.deletes:
            del live[key]
        live.update(zip(keys, operation.upserts, strict=True))
    assert len(live) == pytest.approx(start, rel=0.05)


def test_a_step_that_changes_nothing_is_refused(orders):
    with pytest.raises(ValueError, match="0 orders"):
        Refresh(1, 0, orders)


def test_orders_and_their_lineitems_change_together(series):
    for heads, lines in series:
        assert heads.kind == lines.kind
        assert {row["o_orderkey"] for row in heads.upserts} == {row["l_orderkey"] for row in lines.upserts}
        assert {key for (key,) in heads.deletes} == {key for key, _ in lines.deletes}


def test_every_kind_of_change_happens(raw, series):
    live = {row["o_orderkey"]: row for row in rows(raw, ORDERS)}
    past = {key: [row] for key, row in live.items()}
    happened = set()
    for operation in of_table(series, ORDERS):
        for (key,) in operation.deletes:
            del live[key]
            happened.add("deleted")
        for row in operation.upserts:
            key = row["o_orderkey"]
            versions = past.setdefault(key, [])
            if not versions:
                assert key % BLOCK >= USED
                happened.add("inserted into a gap")
            elif key not in live:
                same, repriced = row == versions[-1], row["o_comment"].startswith("repriced")
                happened.add("came back" if same else "came back repriced" if repriced else "came back new")
            else:
                happened.add("changed back" if row in versions else "changed")
            versions.append(row)
            live[key] = row
        if operation.upserts and operation.deletes:
            happened.add("upserts and deletes in one commit")
    assert happened == {
        "deleted",
        "inserted into a gap",
        "came back",
        "came back repriced",
        "came back new",
        "changed",
        "changed back",
        "upserts and deletes in one commit",
    }


def test_a_commit_touches_neighbours(series):
    spans = []
    for operation in of_table(series, ORDERS):
        if operation.kind in ("update", "merge"):
            keys = [row["o_orderkey"] for row in operation.upserts]
            spans.append(max(keys) - min(keys))
    assert sorted(spans)[len(spans) // 2] <= 4 * BLOCK
