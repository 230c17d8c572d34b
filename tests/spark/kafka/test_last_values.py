"""The last value of every key, whatever came before it; tombstones; orders that are none."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from airflow_backfill.core.errors import InvalidSpec, KeyInvalid, OrderUnknown
from airflow_backfill.core.kafka.decoding import Decoding
from airflow_backfill.spark.kafka.dead_letters import good
from airflow_backfill.spark.kafka.decoding import Records, records
from airflow_backfill.spark.kafka.last_values import check_keyed, last_per_key
from airflow_backfill.spark.target_table.net_change import NetChanges
from airflow_backfill.spark.transform.transform import Transform, parse
from tests.spark.kafka.records import Record, raw

pytestmark = pytest.mark.spark

READ = {"key": "json:id BIGINT, v INT", "value": "json:name STRING"}
SELECT = ("id", "name", "offset")


@pytest.fixture(scope="module")
def read(spark: SparkSession) -> Records:
    return records(spark, Decoding.parse(READ))


@pytest.fixture(scope="module")
def transform(spark: SparkSession, read: Records) -> Transform:
    return parse(spark, read.schema, SELECT, "name <> 'draft'")


def rows(spark: SparkSession, read: Records, *found: Record) -> DataFrame:
    return good(read.decode(raw(spark, *found)))


def key(number: int, order: int | None = None) -> bytes:
    return f'{{"id":{number},"v":{order}}}'.replace("None", "null").encode()


def named(name: str) -> bytes:
    return f'{{"name":"{name}"}}'.encode()


def seen(net: NetChanges) -> dict[int, tuple[Any, ...]]:
    """What becomes of each key: its name and offset, or nothing."""
    found = net.frame.collect()
    made = {row.id: () if row._backfill_op == "delete" else (row.name, row.offset) for row in found}
    assert len(made) == len(found) == net.upserts + net.deletes
    assert net.deletes == list(made.values()).count(())
    return made


def test_the_last_record_of_a_key_wins(spark: SparkSession, read: Records, transform: Transform) -> None:
    found = rows(
        spark,
        read,
        (0, 5, key(1), named("new")),
        (0, 3, key(1), named("old")),
        (1, 1, key(2), named("goes")),
        (1, 2, key(2), None),
        (1, 3, key(3), None),
        (1, 4, key(3), named("again")),
        (0, 6, key(4), named("kept")),
        (0, 7, key(4), named("draft")),
        (0, 8, key(5), b"{}"),
    )
    with last_per_key(found, transform, ["id"]) as net:
        assert seen(net) == {1: ("new", 5), 2: (), 3: ("again", 4), 4: (), 5: ()}
        assert (net.changes, net.upserts, net.deletes, net.only_inserts) == (9, 2, 3, False)
        assert net.bounds == {"id": ("1L", "5L")}
        assert net.frame.columns == ["id", "name", "offset", "_backfill_op"]


def test_a_tombstone_names_its_row_under_the_names_of_the_target(spark: SparkSession, read: Records) -> None:
    transform = parse(spark, read.schema, ["name AS id", "id AS `order id`"])
    with last_per_key(rows(spark, read, (0, 0, key(7), None)), transform, transform.target_key(["id"])) as net:
        assert [tuple(row) for row in net.frame.collect()] == [(None, 7, "delete")]


def test_nothing_read_is_nothing_to_write(spark: SparkSession, read: Records, transform: Transform) -> None:
    with last_per_key(rows(spark, read), transform, ["id"]) as net:
        assert seen(net) == {} and net.bounds == {}


def test_a_key_in_several_partitions_needs_an_order(spark: SparkSession, read: Records, transform: Transform) -> None:
    found = rows(
        spark, read, (0, 5, key(1, 2), named("a")), (1, 9, key(1, 1), named("b")), (1, 1, key(2, 1), named("c"))
    )
    with pytest.raises(OrderUnknown, match="2 records") as raised:
        last_per_key(found, transform, ["id"])
    assert raised.value.data["sample"] == [{"partition": 0, "offset": 5}, {"partition": 1, "offset": 9}]
    with last_per_key(found, transform, ["id"], "v") as net:
        assert seen(net) == {1: ("a", 5), 2: ("c", 1)}
    with last_per_key(found, transform, ["id"], "timestamp") as net:
        assert seen(net) == {1: ("b", 9), 2: ("c", 1)}


def test_equal_orders_are_told_apart_by_partition_and_offset(
    spark: SparkSession, read: Records, transform: Transform
) -> None:
    found = [(0, 9, key(1, 1), named("a")), (1, 2, key(1, 1), named("b")), (1, 3, key(1, 1), named("c"))]
    for _ in range(3):
        random.Random(1).shuffle(found)
        with last_per_key(rows(spark, read, *found), transform, ["id"], "v") as net:
            assert seen(net) == {1: ("c", 3)}


@pytest.mark.parametrize("column", ["name", "NAME", "offset", "timestamp"])
def test_a_key_that_a_tombstone_does_not_have_is_refused_by_the_plan(read: Records, column: str) -> None:
    with pytest.raises(KeyInvalid, match="comes from the record's") as raised:
        check_keyed(read, ["id", column], None)
    assert raised.value.data["column"] == column


@pytest.mark.parametrize("order", ["name", "nothing", "offset", "headers"])
def test_an_order_that_a_tombstone_does_not_have_is_refused_by_the_plan(read: Records, order: str) -> None:
    with pytest.raises(InvalidSpec, match=r"columns that do: id, v, timestamp") as raised:
        check_keyed(read, ["id"], order)
    assert raised.value.data["field"] == "order"


@pytest.mark.parametrize(("columns", "order"), [(["id"], None), (["ID"], "V"), (["id", "v"], "timestamp")])
def test_what_every_record_has_may_be_key_and_order(read: Records, columns: list[str], order: str | None) -> None:
    check_keyed(read, columns, order)


HISTORY = st.lists(
    st.tuples(st.integers(0, 2), st.integers(1, 4), st.integers(0, 3), st.sampled_from(["a", "b", "draft", None])),
    max_size=40,
)


def folded(history: list[tuple[int, int, int, str | None]], *, ordered: bool) -> dict[int, tuple[Any, ...]]:
    """The rule in plain Python, record by record."""
    last: dict[int, tuple[tuple[int, ...], tuple[Any, ...]]] = {}
    for offset, (partition, number, order, name) in enumerate(history):
        place = (order, partition, offset) if ordered else (offset,)
        made = () if name in (None, "draft") else (name, offset)
        if number not in last or place > last[number][0]:
            last[number] = (place, made)
    return {number: made for number, (_, made) in last.items()}


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(HISTORY, st.booleans(), st.randoms(use_true_random=False))
def test_any_history_comes_to_what_its_fold_says(
    spark: SparkSession,
    read: Records,
    transform: Transform,
    history: list[tuple[int, int, int, str | None]],
    ordered: bool,
    rng: random.Random,
) -> None:
    if not ordered:
        history = [(number % 3, number, order, name) for _, number, order, name in history]
    found: list[Record] = [
        (partition, offset, key(number, order), None if name is None else named(name))
        for offset, (partition, number, order, name) in enumerate(history)
    ]
    rng.shuffle(found)
    with last_per_key(rows(spark, read, *found), transform, ["id"], "v" if ordered else None) as net:
        assert seen(net) == folded(history, ordered=ordered)
        assert net.changes == len(history)
