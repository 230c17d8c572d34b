from __future__ import annotations

import pytest

from demo.tpch import BLOCK, LINEITEM, ORDERS, USED, count, files, make, rows


def test_orders_have_unique_keys_and_leave_gaps(raw):
    keys = [row["o_orderkey"] for row in rows(raw, ORDERS)]
    assert len(keys) == len(set(keys)) == count(raw, ORDERS) == 1_500
    assert {key % BLOCK for key in keys} == set(range(USED))


def test_lineitems_belong_to_orders_and_have_unique_keys(raw):
    orders = {row["o_orderkey"] for row in rows(raw, ORDERS)}
    keys = [(row["l_orderkey"], row["l_linenumber"]) for row in rows(raw, LINEITEM)]
    assert len(keys) == len(set(keys)) == count(raw, LINEITEM)
    assert {order for order, _ in keys} == orders


def test_rows_of_some_orders_are_those_rows(raw):
    expected = [row for row in rows(raw, ORDERS) if row["o_orderkey"] in (1, 7, 32)]
    assert list(rows(raw, ORDERS, [1, 7, 32])) == expected
    assert len(expected) == 3


def test_a_directory_that_is_made_is_left_alone(raw):
    before = {path: path.stat().st_mtime_ns for table in (ORDERS, LINEITEM) for path in files(raw, table)}
    make(raw, 0.001)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    with pytest.raises(ValueError, match=r"at scale 0\.001, not 0\.002"):
        make(raw, 0.002)


@pytest.mark.soak
def test_what_a_killed_run_left_is_made_again(tmp_path):
    partial = tmp_path / "raw.partial" / "orders"
    partial.mkdir(parents=True)
    (partial / "orders.9.parquet").write_bytes(b"torn")
    make(tmp_path / "raw", 0.001)
    assert count(tmp_path / "raw", ORDERS) == 1_500
    assert not partial.exists()


def test_scale_one_makes_some_dozens_of_files():
    assert (ORDERS.files(1), LINEITEM.files(1)) == (30, 120)
    assert (ORDERS.files(0.001), LINEITEM.files(0.001)) == (6, 6)
