"""Dates and timestamps in years that Python does not know: a typing error in the source is a row like any other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_backfill.core.errors import DuplicateKey
from airflow_backfill.core.state.load import load
from airflow_backfill.core.values.phase import Phase
from airflow_backfill.core.values.round_size import RoundSize
from airflow_backfill.spark.explain.explanation import Explanation
from airflow_backfill.spark.run.interpreter import Shell
from tests.spark.build import Build
from tests.spark.history import Source, difference

pytestmark = pytest.mark.spark

TIMES = {
    "DATE": ("DATE_FROM_UNIX_DATE({} * 99991 - 900000)", "+20210-01-02", "DATE_FROM_UNIX_DATE(6662024)"),
    "TIMESTAMP": (
        "TIMESTAMP_SECONDS({} * 8639222400 - 77760000000)",
        "+20210-01-02 00:00:00",
        "TIMESTAMP_SECONDS(6662024L * 86400)",
    ),
}
"""An expression of 100 times from before the year 1 to after 20000; one of its own as text, and as SQL."""


def texts(rows: DataFrame) -> DataFrame:
    return rows.selectExpr("CAST(id AS STRING) AS id", "name")


@pytest.mark.soak
@pytest.mark.parametrize("kind", TIMES)
@pytest.mark.parametrize("strategy", ["arrangement", "snapshot"])
def test_a_key_of_any_time(spark: SparkSession, tmp_path: Path, kind: str, strategy: str) -> None:
    times, text, own = TIMES[kind]
    source = Source(spark, str(tmp_path / "source"), ("id", "part", "name", "n"))
    source.sql(
        f"CREATE TABLE $table (id {kind}, name STRING) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)"
    )
    for start in range(0, 100, 25):
        source.sql(f"INSERT INTO $table SELECT {times.format('id')}, 'made' FROM range({start}, {start + 25}, 1, 1)")
    build = Build(source, tmp_path / "target", strategy=strategy)
    source.sql(f"INSERT INTO $table VALUES ({own}, 'one'), ({own}, 'two')")
    with pytest.raises(DuplicateKey) as raised:
        build.read()
        build.consume_log()
    assert [one["id"] for one in raised.value.data["sample"]] == [text]
    source.sql("DELETE FROM $table WHERE name = 'two'")
    build.size = RoundSize(rows=30, bytes=1)
    build.read()
    source.sql("UPDATE $table SET name = 'changed' WHERE name = 'one'")
    source.sql(f"DELETE FROM $table WHERE id IN ({times.format(3)}, {times.format(97)})")
    build.size = RoundSize()
    assert build.complete().phase is Phase.FINISHED
    assert difference(texts(build.rows()), texts(source.at(source.head))) == []
    shell = Shell(spark, build.target)
    found: dict[str, Any] = Explanation(spark, shell.reader, shell.run(load())).of([f"id={text}"], None)
    assert found["verdict"] == "equal"
