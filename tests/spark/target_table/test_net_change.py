"""The last change of a key, whatever came before it; rows that leave the filter; keys that are not keys."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from airflow_backfill.core.errors import ChangesIncomplete, KeyNull
from airflow_backfill.spark.source.changes import Changes, Expected
from airflow_backfill.spark.target_table.buckets import Buckets
from airflow_backfill.spark.target_table.net_change import NEW, OP, REPEATED, NetChanges, net_changes
from airflow_backfill.spark.transform.transform import Transform, parse

pytestmark = pytest.mark.spark

SCHEMA = "id int, v string, n int, _change_type string, _commit_version bigint"


def changes_of(spark: SparkSession, rows: list[tuple], schema: str = SCHEMA, *, moved: bool = False) -> Changes:
    epochs = {row[-1] for row in rows}
    expected = [Expected(e, None, None, None, images=False) for e in epochs]
    frame = spark.createDataFrame(rows, schema)
    only_adds = all(row[-2] == "insert" for row in rows)
    return Changes(frame, (), False, moved, only_adds, expected, lambda _: pytest.fail("nothing to distrust"))


def transform_of(spark: SparkSession, changes: Changes, *select: str, where: str | None = None) -> Transform:
    source = changes.frame.drop("_change_type", "_commit_version").schema
    return parse(spark, source, list(select) or None, where)


def seen(net: NetChanges) -> set[tuple[Any, ...]]:
    rows = net.frame.drop(NEW).collect()
    assert len(rows) == len({row[0] for row in rows}) == net.upserts + net.deletes
    return {("delete", row[0]) if row[-1] == "delete" else tuple(row[:-1]) for row in rows}


@pytest.mark.parametrize("key", [b"\xc3", b"\xed\xa0\x80", b"\xff", "\ufffd".encode(), "é".encode()])
def test_bounds_hold_a_key_of_any_bytes(spark: SparkSession, key: bytes) -> None:
    """Python replaces what is no UTF-8, and then another text is a bound."""
    rows = [(key, "v", 1, "insert", 5), (key, "v", 1, "update_preimage", 6), (key, "w", 1, "update_postimage", 6)]
    _assert_in_bounds(spark, rows)


def test_bounds_of_epochs_hold_keys_of_any_bytes(spark: SparkSession) -> None:
    """In GBK and UTF-8: to Python the first key is greater than the others."""
    texts = ("中9".encode(), "中0".encode())
    _assert_in_bounds(spark, [(b"\xc4\xe3", "v", 1, "insert", 5), *((text, "v", 1, "insert", 6) for text in texts)])
    rows = [(b"\xc4\xe3", "v", 1, "insert", 5), (texts[0], "v", 1, "insert", 5), (texts[1], "v", 1, "insert", 6)]
    _assert_in_bounds(spark, rows)


def _assert_in_bounds(spark: SparkSession, rows: list[tuple]) -> None:
    """All keys, given as bytes, are texts in the bounds, if there are any."""
    made = changes_of(spark, rows, SCHEMA.replace("id int", "id binary"))
    changes = replace(made, frame=made.frame.withColumn("id", F.col("id").cast("string")))
    with net_changes(changes, transform_of(spark, changes), ("id",)) as net:
        for low, high in (*net.bounds.values(), *net.new_bounds.values()):
            assert net.frame.where(~F.col("id").between(F.expr(low), F.expr(high))).isEmpty()


def test_the_last_change_of_each_key_wins(spark: SparkSession) -> None:
    changes = changes_of(
        spark,
        [
            (1, "old", 1, "insert", 5),
            (1, "old", 1, "update_preimage", 6),
            (1, "new", 1, "update_postimage", 6),
            (2, "b", 1, "insert", 5),
            (2, "b", 1, "delete", 7),
            (3, "c", 1, "delete", 5),
            (3, "again", 1, "insert", 6),
            # Within one epoch what comes is the new state, in whatever order it is read.
            (4, "comes", 1, "insert", 5),
            (4, "goes", 1, "delete", 5),
            (5, "goes", 1, "delete", 5),
            (5, "comes", 1, "insert", 5),
        ],
    )
    with net_changes(changes, transform_of(spark, changes), ("id",)) as net:
        assert seen(net) == {(1, "new", 1), ("delete", 2), (3, "again", 1), (4, "comes", 1), (5, "comes", 1)}
        assert (net.upserts, net.deletes, net.changes, net.only_inserts) == (4, 1, 11, False)
        assert net.bounds == {"id": ("1", "5")}


def test_a_row_that_leaves_the_filter_or_takes_another_key_deletes_the_key_it_had(spark: SparkSession) -> None:
    changes = changes_of(
        spark,
        [
            (1, "in", 1, "update_preimage", 5),
            (1, "out", -1, "update_postimage", 5),
            (2, "out", -1, "update_preimage", 5),
            (2, "in", 1, "update_postimage", 5),
            (3, "moves", 1, "update_preimage", 5),
            (30, "moves", 1, "update_postimage", 5),
            (4, "unknown", None, "insert", 5),
        ],
    )
    transform = transform_of(spark, changes, "v", "id AS k", where="n > 0")
    with net_changes(changes, transform, transform.target_key(["id"])) as net:
        found = {(row["k"], row["v"] if row[OP] == "upsert" else None) for row in net.frame.collect()}
        assert found == {(1, None), (2, "in"), (3, None), (30, "moves"), (4, None)}


def test_expressions_are_not_evaluated_where_the_filter_excludes_them(spark: SparkSession) -> None:
    changes = changes_of(spark, [(1, "a", 0, "insert", 5), (2, "b", 4, "insert", 5), (3, "c", 0, "delete", 5)])
    transform = transform_of(spark, changes, "id", "100 / n AS share", where="n <> 0")
    with net_changes(changes, transform, ("id",)) as net:
        assert seen(net) == {("delete", 1), (2, 25.0), ("delete", 3)}


def test_only_inserts_of_new_keys_may_be_appended(spark: SparkSession) -> None:
    once = changes_of(spark, [(1, "a", 1, "insert", 5), (2, "b", 1, "insert", 6)])
    twice = changes_of(spark, [(1, "a", 1, "insert", 5), (1, "b", 1, "insert", 6)])
    with net_changes(once, transform_of(spark, once), ("id",)) as net:
        assert net.only_inserts
    with net_changes(twice, transform_of(spark, twice), ("id",)) as net:
        assert not net.only_inserts


@pytest.mark.parametrize("where", [None, "v <> 'b'"])
def test_two_rows_of_one_key(spark: SparkSession, where: str | None) -> None:
    changes = changes_of(
        spark,
        [
            (1, "a", 1, "insert", 5),
            (1, "b", 1, "insert", 5),
            (2, "a", 1, "insert", 5),
            (2, "b", 1, "insert", 6),
            (3, "a", 1, "update_postimage", 6),
            (3, "b", 1, "insert", 6),
            (4, "a", 1, "insert", 5),
            (4, "a", 1, "delete", 6),
            (4, "b", 1, "insert", 6),
        ],
    )
    with net_changes(changes, transform_of(spark, changes, where=where), ("id",)) as net:
        assert net.repeated == 3
        assert {row["id"] for row in net.staged.where(REPEATED).collect()} == {1, 2, 3}
        assert not net.only_inserts


def test_a_row_without_a_key(spark: SparkSession) -> None:
    changes = changes_of(spark, [(None, "a", 1, "insert", 5), (1, "b", 1, "insert", 5)])
    with pytest.raises(KeyNull) as raised:
        net_changes(changes, transform_of(spark, changes), ("id",))
    assert raised.value.data == {"count": 1, "sample": [{"id": None, "epoch": "5"}]}


def test_a_row_without_a_key_that_came_and_went(spark: SparkSession) -> None:
    rows = [
        (None, "a", 1, "insert", 5),
        (1, "b", 1, "insert", 5),
        (None, "a", 1, "update_preimage", 6),
        (2, "a", 1, "update_postimage", 6),
        (None, "c", 1, "insert", 6),
        (None, "c", 1, "delete", 7),
    ]
    changes = changes_of(spark, rows)
    with net_changes(changes, transform_of(spark, changes), ("id",)) as net:
        assert (net.upserts, net.deletes, net.repeated) == (2, 0, 0)
        assert {row["id"] for row in net.frame.collect()} == {1, 2}
    changes = changes_of(spark, rows[:5])
    with pytest.raises(KeyNull, match="larger rounds"):
        net_changes(changes, transform_of(spark, changes), ("id",))


def test_changes_of_an_epoch_that_was_not_asked_for(spark: SparkSession) -> None:
    changes = changes_of(spark, [(1, "a", 1, "insert", 5)])
    stray = Changes(changes.frame, (), False, False, True, (), changes.distrusting)
    with pytest.raises(ChangesIncomplete, match="epoch 5"):
        net_changes(stray, transform_of(spark, changes), ("id",))


def test_rows_that_only_moved_are_no_change(spark: SparkSession) -> None:
    rows = [
        (1, "same", None, "update_preimage", 5),
        (1, "same", None, "insert", 5),
        (2, "a", 1, "update_preimage", 5),
        (2, "a", None, "insert", 5),
        (3, "only the dropped column differs", 1, "update_preimage", 5),
        (3, "only the dropped column differs", 2, "insert", 5),
        (4, "gone", 1, "update_preimage", 5),
        (5, None, None, "delete", 5),
        (5, None, None, "insert", 5),
        (6, "was outside", -1, "update_preimage", 5),
        (6, "was outside", 1, "insert", 5),
    ]
    changes = changes_of(spark, rows, moved=True)
    with net_changes(changes, transform_of(spark, changes), ("id",)) as net:
        # Of a delete only the key is known, so 5 may have changed.
        assert seen(net) == {
            (2, "a", None),
            (3, "only the dropped column differs", 2),
            ("delete", 4),
            (5, None, None),
            (6, "was outside", 1),
        }
    with net_changes(changes, transform_of(spark, changes, "id", "v", where="n is null or n > 0"), ("id",)) as net:
        assert seen(net) == {("delete", 4), (5, None), (6, "was outside")}


def test_rows_that_cannot_be_compared_count_as_changed(spark: SparkSession) -> None:
    schema = "id int, m map<string,int>, _change_type string, _commit_version bigint"
    rows = [(1, {"a": 1}, "update_preimage", 5), (1, {"a": 1}, "insert", 5)]
    changes = changes_of(spark, rows, schema, moved=True)
    with net_changes(changes, transform_of(spark, changes), ("id",)) as net:
        assert net.upserts == 1


def test_the_range_of_each_key_column_is_a_literal_of_its_type(spark: SparkSession) -> None:
    columns = {
        "b": ("tinyint", -1, 2),
        "s": ("smallint", -3, 4),
        "i": ("int", -5, 6),
        "l": ("bigint", -(2**63), 2**63 - 1),
        "t": ("string", "ä", "ö"),
        "d": ("date", date(1900, 1, 1), date(2024, 2, 29)),
        "ts": ("timestamp", datetime(1800, 1, 1, 0, 0, 0, 1), datetime(2024, 3, 1, 1, 30)),
        "de": ("decimal(10,2)", Decimal("-1.50"), Decimal("99999999.99")),
    }
    schema = ", ".join(f"{name} {kind}" for name, (kind, _, _) in columns.items())
    rows = [(*(v[side] for v in columns.values()), "insert", 5) for side in (1, 2)]
    changes = changes_of(spark, rows, f"{schema}, _change_type string, _commit_version bigint")
    elsewhere = spark.newSession()
    elsewhere.conf.set("spark.sql.session.timeZone", "America/New_York")
    with net_changes(changes, transform_of(spark, changes), tuple(columns)) as net:
        assert net.bounds.keys() == columns.keys()
        for name, (kind, low, high) in columns.items():
            row = elsewhere.sql(f"SELECT {net.bounds[name][0]} AS low, {net.bounds[name][1]} AS high")
            assert row.schema["low"].dataType.simpleString() == kind
            assert tuple(row.first()) == (low, high)


def test_a_key_without_a_short_literal_has_no_range(spark: SparkSession) -> None:
    schema = "t string, x binary, _change_type string, _commit_version bigint"
    changes = changes_of(spark, [("it's", b"1", "insert", 5), ("a" * 300, b"2", "insert", 5)], schema)
    with net_changes(changes, transform_of(spark, changes), ("t", "x")) as net:
        assert net.bounds == {}


def test_buckets_are_disjoint_and_whole(spark: SparkSession) -> None:
    changes = changes_of(spark, [(i, "v", 1, "insert", 5) for i in range(50)])
    transform = transform_of(spark, changes)
    found: list[int] = []
    for part in (Buckets(0, 1, 4), Buckets(1, 4, 4)):
        with net_changes(changes, transform, ("id",), part) as net:
            found += [row["id"] for row in net.frame.collect()]
    assert sorted(found) == list(range(50))
