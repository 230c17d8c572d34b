"""What JSON, and what is none, comes to: a row that says all of it, or a reason that says nothing of it."""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import Row, SparkSession

from airflow_backfill.core.errors import InvalidSpec
from airflow_backfill.core.kafka.decoding import Decoding
from airflow_backfill.spark.kafka.decoding import DEAD, TOMBSTONE, records
from tests.spark.kafka.records import values

pytestmark = pytest.mark.spark

SCHEMA = (
    "id BIGINT, s STRING, h SMALLINT, i INT, d DOUBLE, f FLOAT, m DECIMAL(5,2), at TIMESTAMP, n TIMESTAMP_NTZ, "
    "day DATE, b BINARY, o BOOLEAN, a ARRAY<INT>, k MAP<STRING, INT>, r STRUCT<x: INT, y: TIMESTAMP>, v VARIANT, "
    "l ARRAY<STRUCT<at: TIMESTAMP>>, q MAP<STRING, DOUBLE>"
)
NOT_ONE, UNFIT, NO_OBJECT, NO_TEXT = (
    "value is not one JSON value",
    "value does not fit its schema",
    "value is not a JSON object",
    "value is not UTF-8",
)
TEN = datetime(2026, 1, 1, 10)
LONG = "x" * 5_000_000


def no(kind: str, field: str) -> str:
    return f"value has no {kind} in {field!r}"


GOOD: dict[bytes, dict[str, Any]] = {
    b'{"id":1}': {"id": 1},
    b' {"id": 1}\r\n\t': {"id": 1},
    b"{}": {},
    b'{"id":null}': {},
    b'{"id":1,"unknown":[{"deep":{}}]}': {"id": 1},
    b'{"ID":1}': {},
    b'{"id":1,"id":2}': {"id": 2},
    b'{"id":9223372036854775807}': {"id": 2**63 - 1},
    b'{"h":-32768}': {"h": -32768},
    b'{"d":1e-400}': {"d": 0.0},
    b'{"d":12345678901234567890123}': {"d": 1.2345678901234568e22},
    b'{"m":1.005}': {"m": Decimal("1.01")},
    b'{"m":"1.5"}': {"m": Decimal("1.50")},
    b'{"s":5}': {"s": "5"},
    b'{"s":""}': {"s": ""},
    b'{"s":1.50}': {"s": "1.5"},
    b'{"s":"\\ud800"}': {"s": "?"},
    '{"x":"äöü€😀","s":{"a":"é",  "b":2}}'.encode(): {"s": '{"a":"é","b":2}'},
    b'{"s":"\\u0000\\ud83d\\ude00"}': {"s": "\x00😀"},
    b'{"at":"2026-01-01T10:00:00Z"}': {"at": TEN},
    b'{"at":"2026-01-01 12:00:00.123456789+02:00"}': {"at": TEN.replace(microsecond=123456)},
    b'{"n":"2026-01-01T10:00:00"}': {"n": TEN},
    b'{"day":"2026-01-01"}': {"day": date(2026, 1, 1)},
    b'{"b":"AQI="}': {"b": b"\x01\x02"},
    b'{"o":true}': {"o": True},
    b'{"a":[1,null]}': {"a": [1, None]},
    b'{"k":{"a":1,"b":null}}': {"k": {"a": 1, "b": None}},
    b'{"r":{"y":"2026-01-01T10:00:00Z","z":1}}': {"r": Row(x=None, y=TEN)},
    b'{"l":[{"at":"2026-01-01T10:00:00Z"},null,{}]}': {"l": [Row(at=TEN), None, Row(at=None)]},
    b'{"q":{"a":1}}': {"q": {"a": 1.0}},
    f'{{"s":"{LONG}"}}'.encode(): {"s": LONG},
    b'{"id":1,"s":%s7%s}' % (b"[" * 900, b"]" * 900): {"id": 1, "s": "[" * 900 + "7" + "]" * 900},
}
BAD: dict[bytes, str] = {
    # No JSON, or not one value of it.
    b"": NOT_ONE,
    b"  ": NOT_ONE,
    b"abc": NOT_ONE,
    b"\x00\x00\x00\x00\x07abc": NOT_ONE,
    b'{"id":1': NOT_ONE,
    b'{"id":1,}': NOT_ONE,
    b"{id:1}": NOT_ONE,
    b"{'id':1}": UNFIT,
    b'{"id":1} x': NOT_ONE,
    b'{"id":1}}': NOT_ONE,
    b'{"id":1}{"id":2}': NOT_ONE,
    b'{"id":1},{"id":2}': NOT_ONE,
    b'{"id":1},"id":2': NOT_ONE,
    b'{"id":1}] x [': UNFIT,
    b'{"id":1}} x {': NOT_ONE,
    b'{"id":1},"_backfill_corrupt":null}': NOT_ONE,
    b'\xef\xbb\xbf{"id":1}': NOT_ONE,
    b'{"id":1,"x":NaN}': NOT_ONE,
    b'{"id":1,"x":%s%s}' % (b"[" * 1100, b"]" * 1100): NOT_ONE,
    # JSON, and no object.
    b"null": NO_OBJECT,
    b"1": UNFIT,
    b'"x"': UNFIT,
    b'""': UNFIT,
    b"[]": UNFIT,
    b'[{"id":1}]': UNFIT,
    # Not UTF-8.
    b'{"id":1,"s":"\xff"}': NO_TEXT,
    b'{"id":1,"x":"\xff"}': NO_TEXT,
    b'{"s":"\xed\xa0\x80"}': NO_TEXT,
    b"\xff\xfe{\x00}\x00": NO_TEXT,
    # A field of another type, or that its type cannot hold.
    b'{"id":"1"}': UNFIT,
    b'{"id":""}': UNFIT,
    b'{"id":1.0}': UNFIT,
    b'{"id":true}': UNFIT,
    b'{"id":"x","id":1}': UNFIT,
    b'{"id":9223372036854775808}': UNFIT,
    b'{"id":' + b"9" * 2000 + b"}": NOT_ONE,
    b'{"i":3000000000}': UNFIT,
    b'{"h":40000}': UNFIT,
    b'{"d":NaN}': NOT_ONE,
    b'{"d":"NaN"}': UNFIT,
    b'{"d":"1.5"}': UNFIT,
    b'{"d":1e400}': no("double", "d"),
    b'{"d":-1e400}': no("double", "d"),
    b'{"f":1e39}': no("float", "f"),
    b'{"q":{"a":1e400}}': no("map<string,double>", "q"),
    b'{"m":12345.67}': UNFIT,
    b'{"m":"abc"}': UNFIT,
    b'{"m":1e1000000}': UNFIT,
    b'{"o":"true"}': UNFIT,
    b'{"o":1}': UNFIT,
    b'{"b":"###"}': UNFIT,
    b'{"a":1}': UNFIT,
    b'{"a":[1,"x"]}': UNFIT,
    b'{"k":{"a":"x"}}': UNFIT,
    b'{"k":{"a":1,"a":2}}': no("map<string,int>", "k"),
    b'{"r":{"x":"q"}}': UNFIT,
    b'{"r":""}': UNFIT,
    b'{"v":{"a":1,"a":2}}': UNFIT,
    b'{"s":"a\x00b"}': UNFIT,
    b'{"s":"a\nb"}': UNFIT,
    # Times that Spark would guess at.
    b'{"at":"x"}': no("timestamp", "at"),
    b'{"at":""}': no("timestamp", "at"),
    b'{"at":1700000000}': no("timestamp", "at"),
    b'{"at":1700000000000000000}': no("timestamp", "at"),
    b'{"at":"12:30"}': no("timestamp", "at"),
    b'{"at":"now"}': no("timestamp", "at"),
    b'{"at":"2026"}': no("timestamp", "at"),
    b'{"at":"2026-01-01"}': no("timestamp", "at"),
    b'{"at":"2026-01-01T10:00:00 garbage"}': no("timestamp", "at"),
    b'{"at":"2026-02-30T00:00:00Z"}': no("timestamp", "at"),
    b'{"at":{"x":1}}': no("timestamp", "at"),
    b'{"n":"2026-01-01T10:00:00+02:00"}': no("timestamp_ntz", "n"),
    b'{"day":"2026-01-01Tgarbage"}': no("date", "day"),
    b'{"day":"2026-01-01T10:00:00Z"}': no("date", "day"),
    b'{"day":18000}': no("date", "day"),
    b'{"day":"2026-02-30"}': no("date", "day"),
    b'{"r":{"x":1,"y":"12:30"}}': no("struct<x:int,y:timestamp>", "r"),
    b'{"l":[{"at":"2026-01-01T10:00:00Z"},{"at":5}]}': no("array<struct<at:timestamp>>", "l"),
}


@pytest.fixture(scope="module")
def seen(spark: SparkSession) -> dict[bytes, dict[str, Any]]:
    """What became of each value, all read together."""
    found = [*GOOD, *BAD]
    decoded = records(spark, Decoding.parse({"value": f"json:{SCHEMA}"})).decode(values(spark, *found)).drop("v")
    rows = [row.asDict() for row in decoded.orderBy("offset").collect()]
    assert len(rows) == len(found)
    return dict(zip(found, rows, strict=True))


def fields(row: dict[str, Any]) -> dict[str, Any]:
    own = {"partition", "offset", "timestamp", "headers", "key", TOMBSTONE, DEAD}
    return {name: value for name, value in row.items() if name not in own and value is not None}


@pytest.mark.parametrize("value", GOOD, ids=lambda value: str(value)[:60])
def test_a_good_row_says_all_of_it(seen: dict[bytes, dict[str, Any]], value: bytes) -> None:
    assert seen[value][DEAD] is None
    assert fields(seen[value]) == GOOD[value]


@pytest.mark.parametrize("value", BAD, ids=lambda value: str(value)[:60])
def test_what_cannot_be_read_is_a_dead_letter_with_a_reason(seen: dict[bytes, dict[str, Any]], value: bytes) -> None:
    letter = seen[value][DEAD]
    assert letter is not None, fields(seen[value])
    assert (letter.reason, bytes(letter.value)) == (BAD[value], value)
    assert fields(seen[value]) == {}


def test_a_variant_keeps_what_it_was(spark: SparkSession) -> None:
    decoded = records(spark, Decoding.parse({"value": "json:v VARIANT"})).decode(
        values(spark, b'{"v":{"a":[1,null]}}', b'{"v":null}', b"{}")
    )
    found = decoded.orderBy("offset").selectExpr("to_json(v) AS v", f"{DEAD} IS NULL AS good").collect()
    assert [tuple(row) for row in found] == [('{"a":[1,null]}', True), ("null", True), (None, True)]


def test_a_single_column_is_no_shortcut(spark: SparkSession) -> None:
    """Spark reads fewer fields if fewer are wanted; whether the record is sound does not depend on it."""
    decoded = records(spark, Decoding.parse({"value": f"json:{SCHEMA}"})).decode(values(spark, b'{"id":1,"i":"x"}'))
    assert decoded.select("id").collect() == [Row(id=None)]
    assert decoded.where(f"{DEAD} IS NULL").count() == 0


@pytest.mark.parametrize(
    ("ddl", "says"),
    [
        ("id", "PARSE_SYNTAX_ERROR"),
        ("BIGINT", "names no fields"),
        ("id FOO", "FOO"),
        ("id BIGINT NOT NULL", "id has more than a name and a type"),
        ("id BIGINT COMMENT 'the id'", "id has more than a name and a type"),
        ("id BIGINT, ID INT", "id occurs twice"),
        ("r STRUCT<x: INT, X: INT>", "r.x occurs twice"),
        ("r STRUCT<x: INT NOT NULL>", "r.x has more than"),
        ("t TINYINT", "t has type tinyint"),
        ("c VARCHAR(3)", "c has type varchar(3)"),
        ("c CHAR(3)", "c has type char(3)"),
        ("c STRING COLLATE UNICODE_CI", "c has type string collate"),
        ("k MAP<INT, INT>", "k has type map<int,int>"),
        ("a ARRAY<STRUCT<i: INTERVAL DAY>>", "a.i has type interval"),
        ("timestamp TIMESTAMP", "its column 'timestamp' has the name of a field of the record"),
        ("Offset INT", "'offset'"),
        ("key STRING", "its column 'key' has the name of a field of topic.key"),
    ],
)
def test_a_schema_that_cannot_be_kept_is_refused(spark: SparkSession, ddl: str, says: str) -> None:
    with pytest.raises(InvalidSpec, match="(?i)" + says.replace("(", r"\(").replace(")", r"\)")) as raised:
        records(spark, Decoding.parse({"value": f"json:{ddl}"}))
    assert raised.value.data["field"] == "topic.value"


SEEDS = (b'{"id":1,"s":"a"}', b'{"s":null}', b'{"id":-7 , "x":[1,{"id":2}]}', '{"s":"ü\\n","id":12}'.encode(), b"[{}]")
PIECES = [bytes([byte]) for byte in b'{}[],:"\\ 10.e-x'] + [b"\xff", b'"id":', b'"s":5,', b"null", b"true"]
EDITS = st.tuples(st.integers(0, 40), st.integers(0, 3), st.sampled_from([b"", *PIECES]))


def edited(seed: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
    for at, gone, new in edits:
        seed = seed[:at] + new + seed[at + gone :]
    return seed


def judged(value: bytes) -> dict[str, Any] | None:
    """What Python's own reader makes of a value, None for a dead letter."""

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    try:
        found = json.loads(value.decode(), parse_constant=refuse)
    except ValueError:
        return None
    if not isinstance(found, dict) or value.startswith(b"\xef\xbb\xbf"):
        return None
    number = found.get("id")
    if number is not None and (type(number) is not int or not -(2**63) <= number < 2**63):
        return None
    return {"id": number, "s": found.get("s")}


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.builds(edited, st.sampled_from(SEEDS), st.lists(EDITS, min_size=1, max_size=3)), min_size=100, max_size=200
    )
)
def test_python_agrees_on_what_is_json(spark: SparkSession, found: list[bytes]) -> None:
    reading = records(spark, Decoding.parse({"value": "json:id BIGINT, s STRING"}))
    rows = reading.decode(values(spark, *found)).orderBy("offset").collect()
    assert len(rows) == len(found)
    for value, row in zip(found, rows, strict=True):
        expected = judged(value)
        assert (row[DEAD] is None) == (expected is not None), value
        if expected is not None:
            assert row.id == expected["id"], value
            if expected["s"] is None or isinstance(expected["s"], str):
                assert row.s == expected["s"], value
