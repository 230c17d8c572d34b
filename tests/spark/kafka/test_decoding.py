"""Records become rows, each exactly one: good ones, and dead letters that hold the whole record."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from airflow_backfill.core.errors import InvalidSpec
from airflow_backfill.core.kafka.decoding import Decoding
from airflow_backfill.core.state.effect import Decoded
from airflow_backfill.spark.kafka.dead_letters import SCHEMA, count, dead_letters, good, undecodable
from airflow_backfill.spark.kafka.decoding import DEAD, TOMBSTONE, Records, records
from airflow_backfill.spark.transform.transform import Transform, parse
from tests.spark.kafka.records import START, Record, raw, values

pytestmark = pytest.mark.spark

KEYED = {"key": "json:id BIGINT", "value": "json:name STRING, at TIMESTAMP", "undecodable": "dead_letters:/dead"}


def read_as(spark: SparkSession, **options: str) -> Records:
    return records(spark, Decoding.parse(options))


def transform_of(spark: SparkSession, read: Records, *select: str, where: str | None = None) -> Transform:
    return parse(spark, read.schema, list(select) or None, where)


@pytest.mark.parametrize(
    ("options", "schema"),
    [
        ({}, "key:binary,value:binary"),
        ({"key": "string", "value": "string"}, "key:string,value:string"),
        ({"value": "json:id BIGINT, r STRUCT<x: INT>"}, "key:binary,id:bigint,r:struct<x:int>"),
        ({"key": "json:id BIGINT", "value": "bytes"}, "id:bigint,value:binary"),
        ({"key": "json:key INT", "value": "json:value DATE"}, "key:int,value:date"),
        ({"value": "json:`x.y` INT, `q``r` INT, `the id` TIMESTAMP"}, "key:binary,x.y:int,q`r:int,the id:timestamp"),
    ],
)
def test_the_columns_are_known_before_anything_is_read(spark: SparkSession, options: dict, schema: str) -> None:
    read = read_as(spark, **options)
    place = "partition:int,offset:bigint,timestamp:timestamp,headers:array<struct<key:string,value:binary>>"
    assert read.schema.simpleString() == f"struct<{place},{schema}>"
    decoded = read.decode(raw(spark))
    assert decoded.drop(TOMBSTONE, DEAD).schema.simpleString() == read.schema.simpleString()
    assert dead_letters(decoded).schema.simpleString() == SCHEMA.simpleString()
    assert transform_of(spark, read).schema.simpleString() == read.schema.simpleString()


def test_a_json_field_of_the_key_can_be_the_key_of_the_target(spark: SparkSession) -> None:
    transform = transform_of(spark, read_as(spark, **KEYED), "id AS order_id", "upper(name) AS name")
    assert transform.target_key(["id"]) == ("order_id",)


def test_odd_names_are_names(spark: SparkSession) -> None:
    read = read_as(spark, value="json:`x.y` INT, `q``r` STRING, `the id` TIMESTAMP")
    value = b'{"x.y":1,"q`r":"a","the id":"2026-01-01T00:00:00Z","x":{"y":2}}'
    (row,) = read.decode(values(spark, value)).collect()
    assert (row["x.y"], row["q`r"], row["the id"], row[DEAD]) == (1, "a", START, None)


def test_one_name_for_two_columns_is_refused_with_both_sides(spark: SparkSession) -> None:
    with pytest.raises(InvalidSpec, match=r"topic.value: its column 'id' has the name .* of topic.key") as raised:
        read_as(spark, key="json:id BIGINT", value="json:ID BIGINT")
    assert raised.value.data == {"field": "topic.value", "column": "id"}


def test_place_time_and_headers_are_the_records(spark: SparkSession) -> None:
    (row,) = read_as(spark).decode(raw(spark, (3, 7, b"k", b"v"))).collect()
    assert (row.partition, row.offset, row.timestamp) == (3, 7, START + timedelta(seconds=7))
    assert [(h.key, bytes(h.value)) for h in row.headers] == [("trace", b"\x01")]
    assert (bytes(row.key), bytes(row.value), row[TOMBSTONE], row[DEAD]) == (b"k", b"v", False, None)


@pytest.mark.parametrize("options", [{}, {"key": "string", "value": "string"}, KEYED], ids=["bytes", "string", "json"])
def test_null_is_null_in_every_format(spark: SparkSession, options: dict[str, str]) -> None:
    (row,) = read_as(spark, **options).decode(raw(spark, (0, 0, None, None))).collect()
    assert row[TOMBSTONE] and row[DEAD] is None
    assert set(row[4:-2]) == {None}


@pytest.mark.parametrize(("order", "missing"), [(None, None), ("V", "no v"), ("timestamp", "no timestamp")])
def test_a_record_without_key_or_order_is_dead(spark: SparkSession, order: str | None, missing: str | None) -> None:
    keys = (b'{"id": 1, "v": 1}', None, b"{}", b'{"id": null, "v": 1}', b"{")
    found = raw(spark, *((0, n, key, b'{"name": "a"}') for n, key in enumerate(keys)))
    nothing = raw(spark, (0, 5, b'{"id": 1}', b'{"name": "a"}')).withColumn("timestamp", F.lit(None).cast("timestamp"))
    read = records(spark, Decoding.parse({**KEYED, "key": "json:id BIGINT, v INT"}), ["ID"], order)
    rows = read.decode(found.union(nothing)).orderBy("offset").collect()
    reasons = [None if row[DEAD] is None else row[DEAD]["reason"] for row in rows]
    assert reasons.pop(4).startswith("key ")
    both = "no id; no v" if order == "V" else "no id"
    assert reasons == [None, both, both, "no id", missing]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"", ""),
        ("äöü€😀\x00".encode(), "äöü€😀\x00"),
        (b"\xef\xbb\xbfx", "\ufeffx"),
        (b"\xff", None),
        (b"a\xc3", None),
        (b"\xc0\x80", None),
        (b"\xed\xa0\x80", None),
        (b"\xf4\x90\x80\x80", None),
    ],
)
def test_text_is_utf_8_and_nothing_else(spark: SparkSession, value: bytes, text: str | None) -> None:
    (row,) = read_as(spark, value="string").decode(values(spark, value)).collect()
    assert row.value == text
    assert (row[DEAD].reason if row[DEAD] else None) == (None if text is not None else "value is not UTF-8")


def test_a_dead_letter_is_the_whole_record_with_the_reasons_of_both_sides(spark: SparkSession) -> None:
    read = read_as(spark, **KEYED)
    (row,) = dead_letters(read.decode(raw(spark, (1, 5, b"secret", b'{"name":{"x":1},"at":"secret"}')))).collect()
    assert row.reason == "key is not one JSON value; value has no timestamp in 'at'"
    assert row.decoder == "key json@1, value json@1"
    assert (row.topic, row.partition, row.offset, row.timestamp) == ("orders", 1, 5, START + timedelta(seconds=5))
    assert (bytes(row.key), bytes(row.value)) == (b"secret", b'{"name":{"x":1},"at":"secret"}')
    assert [(h.key, bytes(h.value)) for h in row.headers] == [("trace", b"\x01")]


def test_nothing_of_an_undecodable_record_is_in_its_columns(spark: SparkSession) -> None:
    (row,) = read_as(spark, **KEYED).decode(raw(spark, (1, 5, b'{"id":1}', b'{"name":"x","at":5}'))).collect()
    assert (row.id, row.name, row.at) == (None, None, None)
    assert row[DEAD].reason == "value has no timestamp in 'at'"


def test_a_build_without_a_place_for_them_is_stopped_by_an_error_with_places_and_reasons(spark: SparkSession) -> None:
    decoded = read_as(spark, value="string").decode(values(spark, *[b"secret\xff"] * 7, b"fine"))
    error = undecodable(decoded, count(decoded, F.lit(True)).undecodable)
    assert error.code == "UNDECODABLE"
    assert error.data["count"] == 7
    assert error.data["sample"] == [{"partition": 0, "offset": n, "reason": "value is not UTF-8"} for n in range(5)]
    assert "secret" not in str(error.to_json())


def test_every_record_is_counted_once(spark: SparkSession) -> None:
    read = read_as(spark, **KEYED)
    records_ = [
        (0, 0, b'{"id":1}', b'{"name":"a"}'),
        (0, 1, b'{"id":2}', b'{"name":"draft"}'),
        (0, 2, b'{"id":3}', b"{}"),
        (0, 3, b'{"id":4}', None),
        (0, 4, b'{"id":5}', b"x"),
    ]
    decoded = read.decode(raw(spark, *records_))
    passes = transform_of(spark, read, where="name <> 'draft'").passes()
    assert count(decoded, passes) == Decoded(undecodable=1, unwanted=3)
    assert count(decoded, passes | F.col(TOMBSTONE)) == Decoded(undecodable=1, unwanted=2)
    assert count(decoded.where("offset > 9"), passes) == Decoded(0, 0)


BYTES = st.sampled_from(
    [
        None,
        b"",
        b"a",
        b"\xff",
        b"{}",
        b'{"id":1}',
        b'{"id":2} ',
        b'{"id":"x"}',
        b'{"name":"draft"}',
        b'{"name":"n"}',
        b"[]",
    ]
)
HISTORY = st.lists(st.tuples(BYTES, BYTES), max_size=60)
FORMATS = st.sampled_from(
    [("bytes", "bytes"), ("string", "string"), (KEYED["key"], KEYED["value"]), ("bytes", "json:id INT")]
)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(HISTORY, FORMATS)
def test_no_record_is_lost_or_doubled(
    spark: SparkSession, history: list[tuple[bytes | None, bytes | None]], formats: tuple[str, str]
) -> None:
    read = read_as(spark, key=formats[0], value=formats[1])
    given_: list[Record] = [(n % 3, n, key, value) for n, (key, value) in enumerate(history)]
    decoded = read.decode(raw(spark, *given_))
    alive = [(row.partition, row.offset) for row in good(decoded).collect()]
    letters = dead_letters(decoded).collect()
    assert sorted(alive + [(row.partition, row.offset) for row in letters]) == sorted(r[:2] for r in given_)
    whole = {
        (row.partition, row.offset, *(one if one is None else bytes(one) for one in (row.key, row.value)))
        for row in letters
    }
    assert whole <= set(given_)
    counts = count(decoded, F.col("offset") % 2 == 0)
    assert counts == Decoded(len(letters), sum(offset % 2 for _, offset in alive))
