"""Decoders of the user's own: found by name, judged before anything is read, never the end of a run for one record."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.errors import PythonException
from pyspark.sql import Column, Row, SparkSession
from pyspark.sql import functions as F

from airflow_backfill.core.errors import BackfillError, DecoderInvalid
from airflow_backfill.core.kafka.decoding import Decoding
from airflow_backfill.spark.kafka import decoders
from airflow_backfill.spark.kafka.dead_letters import dead_letters, good
from airflow_backfill.spark.kafka.decoders import (
    ColumnDecoder,
    Decoder,
    JavaDecoder,
    RecordDecoder,
    register,
    registered,
)
from airflow_backfill.spark.kafka.decoding import Records, records
from tests.spark.kafka.decoder_files import java_decoder, package
from tests.spark.kafka.records import values

pytestmark = pytest.mark.spark

READS = "id BIGINT, name STRING"


@pytest.fixture(autouse=True)
def nothing_registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(decoders.DECODERS, "_known", {})
    yield


def reader(error: type[BaseException] = ValueError) -> Callable[[bytes], Any]:
    """Made here, so that it travels to Spark's workers with all it needs."""

    def read(record: bytes) -> Any:
        if record.startswith(b"!"):
            raise error(record.decode())
        return json.loads(record)

    return read


def read_with(spark: SparkSession, decoder: Decoder) -> Records:
    register("mine", decoder)
    return records(spark, Decoding.parse({"value": "decoder:mine"}))


def outcomes(read: Records, *found: bytes | None) -> tuple[list[tuple], list[str]]:
    """The decoded columns of the good rows, and the reasons of the others."""
    decoded = read.decode(values(SparkSession.active(), *found))
    names = [field.name for field in read.value.fields]
    rows = [tuple(row) for row in good(decoded).orderBy("offset").select(*names).collect()]
    return rows, [row.reason for row in dead_letters(decoded).orderBy("offset").collect()]


def test_a_function_of_a_record_has_columns_and_its_errors_are_dead_letters(spark: SparkSession) -> None:
    read = read_with(spark, RecordDecoder(reader(), READS, version="3"))
    assert read.value.kind.simpleString() == "struct<id:bigint,name:string>"
    assert read.version == "key bytes@1, value decoder:mine@3"
    rows, reasons = outcomes(read, b'{"id":1,"name":"a"}', None, b"!secret", b"null", b"{}", b"nonsense")
    assert rows == [(1, "a"), (None, None), (None, None)]
    assert reasons == [
        "value makes its decoder raise ValueError",
        "value makes its decoder return null",
        "value makes its decoder raise JSONDecodeError",
    ]


@pytest.mark.parametrize("record", [b'{"id":"1"}', b'{"id":1.0}', b'{"id":9223372036854775808}', b"7"])
def test_a_value_of_another_type_is_a_dead_letter_and_never_null(spark: SparkSession, record: bytes) -> None:
    read = read_with(spark, RecordDecoder(reader(), READS, version="1"))
    rows, (reason,) = outcomes(read, record)
    assert rows == [] and "makes its decoder raise PySpark" in reason


def test_times_and_nested_values_come_as_they_are(spark: SparkSession) -> None:
    def read_time(record: bytes) -> Any:
        return datetime.fromtimestamp(int(record), timezone.utc), [{"n": 1}, None]

    read = read_with(spark, RecordDecoder(read_time, "at TIMESTAMP, parts ARRAY<STRUCT<n: INT>>", version="1"))
    assert outcomes(read, b"86400") == ([(datetime(1970, 1, 2), [Row(n=1), None])], [])


def test_a_plain_value_is_one_column(spark: SparkSession) -> None:
    read = read_with(spark, RecordDecoder(reader(), "BIGINT", version="1"))
    assert outcomes(read, b"7", b"!x") == ([(7,)], ["value makes its decoder raise ValueError"])


@pytest.mark.parametrize("error", [ConnectionError, TimeoutError, MemoryError])
def test_what_is_not_about_the_record_is_no_dead_letter(spark: SparkSession, error: type[Exception]) -> None:
    read = read_with(spark, RecordDecoder(reader(error), READS, version="1"))
    with pytest.raises(PythonException, match=error.__name__):
        outcomes(read, b"!the registry does not answer")


def test_functions_of_spark_decode_columns(spark: SparkSession) -> None:
    def read_number(raw: Column) -> Column:
        return raw.cast("string").try_cast("bigint")

    assert outcomes(read_with(spark, ColumnDecoder(read_number, "1")), b"7", b"x", None) == (
        [(7,), (None,)],
        ["value makes its decoder return null"],
    )


def test_a_pandas_udf_decodes_columns_and_what_it_raises_fails_the_run(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", sys.executable)

    @F.pandas_udf("id BIGINT, name STRING")
    def read_batch(raw: pd.Series) -> pd.DataFrame:
        found = [json.loads(bytes(value)) if value is not None else {} for value in raw]
        return pd.DataFrame({"id": [f.get("id") for f in found], "name": [f.get("name") for f in found]})

    read = read_with(spark, ColumnDecoder(read_batch, "1"))
    assert outcomes(read, b'{"id":1,"name":"a"}', None) == ([(1, "a"), (None, None)], [])
    with pytest.raises(PythonException, match="JSONDecodeError"):
        outcomes(read, b"x")


def test_a_class_on_the_class_path_decodes(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql(f"ADD JAR '{java_decoder(tmp_path)}'")
    read = read_with(spark, JavaDecoder("Length", "BIGINT", version="1"))
    assert outcomes(read, b"abc", b"", None) == ([(3,), (None,)], ["value makes its decoder return null"])


def shuffled(raw: Column) -> Column:
    return F.concat(raw.cast("string"), F.expr("uuid()"))


def nosy(raw: Column) -> Column:
    return F.concat(raw.cast("string"), F.col("offset").cast("string"))


def broken(raw: Column) -> Column:
    raise RuntimeError("no such registry")


@pytest.mark.parametrize(
    ("decoder", "says"),
    [
        (ColumnDecoder(shuffled, "1"), "does not always give the same value"),
        (ColumnDecoder(nosy, "1"), "offset"),
        (ColumnDecoder(broken, "1"), "RuntimeError: no such registry"),
        (RecordDecoder(reader(), "id FOO", "1"), "cannot be used: ParseException"),
        (JavaDecoder("acme.NoSuchClass", "BIGINT", "1"), "NoSuchClass"),
    ],
    ids=["random", "other columns", "raises", "type", "class"],
)
def test_a_decoder_that_cannot_be_used_is_refused_before_anything_is_read(
    spark: SparkSession, decoder: Decoder, says: str
) -> None:
    with pytest.raises(DecoderInvalid, match=says) as raised:
        read_with(spark, decoder)
    assert raised.value.data["field"] == "topic.value"


def test_a_name_stands_for_one_decoder(spark: SparkSession) -> None:
    decoder = RecordDecoder(reader(), READS, "1")
    register("orders", decoder)
    register("orders", decoder)
    with pytest.raises(DecoderInvalid, match="decoder 'orders' is registered already"):
        register("orders", RecordDecoder(reader(), READS, "1"))
    with pytest.raises(
        DecoderInvalid, match=r"decoder 'order' is not installed .* did you mean 'orders'\? \(there are: orders\)"
    ):
        registered("order")


def test_an_installed_decoder_is_found_by_name_and_only_the_named_one_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = """
from airflow_backfill.spark.kafka.decoders import ColumnDecoder
orders = ColumnDecoder(lambda raw: raw, version="7")
text = "no decoder"
"""
    entries = "orders = acme_one:orders\ntext = acme_one:text\ngone = acme_one:gone\nelsewhere = acme_gone:x"
    monkeypatch.syspath_prepend(package(tmp_path, "acme_one", entries, module))
    assert registered("orders").version == "7"
    for name, says in {
        "text": "is a str, not a decoder",
        "gone": "cannot be loaded .* AttributeError",
        "elsewhere": "cannot be loaded .* ModuleNotFoundError",
        "os": r"there are: elsewhere, gone, orders, text\)",
    }.items():
        with pytest.raises(DecoderInvalid, match=says) as raised:
            registered(name)
        assert raised.value.data == {"decoder": name}
    monkeypatch.syspath_prepend(package(tmp_path, "acme_two", "orders = acme_two:orders", "raise SystemExit"))
    with pytest.raises(BackfillError, match="more than once: acme_one:orders, acme_two:orders"):
        registered("orders")
