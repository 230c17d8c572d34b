"""The changes of one key, against Delta's public reader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from airflow_backfill.core.errors import InvalidSpec
from airflow_backfill.core.values.epoch import EpochRange
from airflow_backfill.spark.open_source import open_source
from airflow_backfill.spark.source.changes import CHANGE_TYPE, EPOCH
from airflow_backfill.spark.source.key_value import KeyValue
from airflow_backfill.spark.transform.transform import quoted
from tests.spark.history import Source, copied

pytestmark = pytest.mark.spark


@pytest.mark.slow
def test_they_are_those_that_the_feed_has(history: Callable[[str], Source]) -> None:
    """Deletion vectors, partitions and mapped columns: the key has other names in files."""
    source, one = history("odd names"), 235
    spark, head = source.spark, source.head
    feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 2)
    columns = [*map(quoted, source.columns), EPOCH, CHANGE_TYPE]
    due = feed.load(source.path).where(F.col(quoted(source.key)) == one).select(*columns).collect()
    key = KeyValue.parse(spark, source.at(head).schema, [source.key.upper()], [f"{source.key}={one}"])
    found = open_source(spark, source.path).key_changes(EpochRange(2, head + 1), key, feed=True)
    rows = [row for frame in found.frames for row in frame.where(key.matches()).select(*columns).collect()]
    assert Counter(rows) == Counter(due) and len({row[EPOCH] for row in rows}) >= 4
    assert {row[EPOCH] for row in rows} <= set(found.epochs) < set(range(2, head + 1)) and found.missing == []


def test_deleted_epochs_are_named(history: Callable[[str], Source], tmp_path: Path) -> None:
    source = copied(history("vectors"), tmp_path / "table", 4)
    key = KeyValue.parse(source.spark, source.at(4).schema, ["id"], ["id=1003"])
    for name in Path(source.path, "_delta_log").glob(f"*{3:020}.*"):
        name.unlink()
    (Path(source.path) / "_delta_log" / f"{2:020}.json").write_text("{")
    found = open_source(source.spark, source.path).key_changes(EpochRange(2, 5), key, feed=True)
    assert list(found.missing) == [2, 3]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["id=one"], "no value of id, which has type bigint"),
        (["id"], "does not name a column"),
        (["name=x"], r"does not name a column of the key \(id\)"),
        (["id=1", "ID=2"], "once"),
        ([], "id is missing"),
    ],
)
def test_a_key_that_is_none_is_refused(given: list[str], says: str, made: Source) -> None:
    with pytest.raises(InvalidSpec, match=says):
        KeyValue.parse(made.spark, made.at(1).schema, ["id"], given)


def test_statistics_tell_which_file_can_hold_a_key(made: Source) -> None:
    schema = "n long, s string, d date, x decimal(9,2), t timestamp, b boolean"
    frame = made.spark.createDataFrame([], schema)

    def may(column: str, value: str, low: object, high: object) -> bool:
        key = KeyValue.parse(made.spark, frame.schema, [column], [f"{column}={value}"])
        return key.may_be_in([column], {"minValues": {column: low}, "maxValues": {column: high}}, {})

    assert may("n", "5", 5, 9) and may("n", "9", 5, 9) and not may("n", "4", 5, 9) and not may("n", "10", 5, 9)
    assert may("s", "b=c", "a", "c") and not may("s", "d", "a", "c") and may("s", "d", None, None)
    assert not may("s", "\U0001f600", "a", "\uffff") and may("s", "a" * 40, "a" * 32, "a" * 32 + "\U0010ffff")
    assert may("d", "2026-01-02", "2026-01-01", "2026-01-02") and not may("d", "2026-01-03", "2026-01-01", "2026-01-02")
    assert may("x", "1.50", 1.5, 1.5) and not may("x", "1.49", 1.5, 2)
    assert may("t", "2026-01-01 00:00:00", "x", "x") and may("b", "true", False, False)
    key = KeyValue.parse(made.spark, frame.schema, ["n", "s"], ["n=1", "s=x"])
    assert not key.may_be_in(["n", "s"], {}, {"n": "2"}) and key.may_be_in(["n", "s"], {}, {"n": "1"})
    assert key.may_be_in(["n", "s"], {}, {"n": None}) and not key.may_be_in(["n", "s"], {"maxValues": {"s": "a"}}, {})
