"""Columns of the key that are named as Spark, Delta or this package name things: every path takes them for columns."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_backfill.core.errors import DuplicateKey, KeyNull, VerificationFailed
from airflow_backfill.core.state.load import load
from airflow_backfill.core.values.phase import Phase
from airflow_backfill.core.values.round_size import RoundSize
from airflow_backfill.spark.explain.explanation import Explanation
from airflow_backfill.spark.run.interpreter import Shell
from tests.spark.build import Build
from tests.spark.history import Source, difference

pytestmark = [pytest.mark.spark, pytest.mark.soak]

KEY = ["count", "rows", "epoch", "path", "kind", "s", "t"]


@pytest.mark.parametrize("strategy", ["snapshot", "arrangement"])
def test_a_key_of_such_columns(spark: SparkSession, tmp_path: Path, strategy: str) -> None:
    source = Source(spark, str(tmp_path / "source"), ("count", "rows", "name", "op"))
    columns = ", ".join(f"`{name}` BIGINT" for name in KEY)
    feed = "TBLPROPERTIES (delta.enableChangeDataFeed = true)"
    source.sql(f"CREATE TABLE $table ({columns}, `keys` STRING, size INT, part INT, op STRING) USING delta {feed}")
    same = ", ".join(["id"] * len(KEY))
    for start in range(0, 80, 20):
        source.sql(f"INSERT INTO $table SELECT {same}, 'made', 1, 1, 'x' FROM range({start}, {start + 20}, 1, 1)")
    build = Build(source, tmp_path / "target", strategy=strategy, key=KEY)
    one = ", ".join(["7"] * len(KEY))
    source.sql(f"INSERT INTO $table VALUES ({one}, 'twice', 1, 1, 'x')")
    with pytest.raises(DuplicateKey) as raised:
        build.read()
    assert raised.value.data["sample"][0]["rows"] == "7"
    source.sql("DELETE FROM $table WHERE keys = 'twice'")
    build.size = RoundSize(rows=30, bytes=1)
    build.read()
    build.size = RoundSize()
    source.sql(f"INSERT INTO $table VALUES ({one}, 'twice', 1, 1, 'x')")
    with pytest.raises(DuplicateKey) as raised:
        build.consume_log()
    assert raised.value.data["sample"][0]["count"] == "7"
    source.sql("DELETE FROM $table WHERE keys = 'twice'")
    source.sql("UPDATE $table SET keys = 'changed' WHERE count % 9 = 1")
    build.hand_off()
    source.sql(f"INSERT INTO $table VALUES ({one.replace('7', 'NULL', 1)}, 'nobody', 1, 1, 'x')")
    with pytest.raises(KeyNull):
        build.upstream()
    source.sql("DELETE FROM $table WHERE keys = 'nobody'")
    build.upstream()
    spark.sql(f"UPDATE delta.`{build.target}` SET keys = 'wrong' WHERE count < 3")
    build.recover(source.head)
    with pytest.raises(VerificationFailed) as failed:
        build.verify()
    assert failed.value.data["counts"]["stale"] == 3
    assert build.repair(source.head).phase is Phase.FINISHED
    assert difference(build.rows(), source.at(source.head)) == []
    shell = Shell(spark, build.target)
    found = Explanation(spark, shell.reader, shell.run(load())).of([f"{name}=1" for name in KEY], None)
    assert found["verdict"] == "equal"
