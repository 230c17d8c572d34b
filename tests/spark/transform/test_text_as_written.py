"""``${…}`` in a text is that text, wherever a build reads it: Spark would put the driver's environment in its place."""

from __future__ import annotations

from pathlib import Path

import pytest
from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from airflow_backfill.core.errors import InvalidExpression
from airflow_backfill.core.kafka.decoding import JSON, Format
from airflow_backfill.core.values.phase import Phase
from airflow_backfill.spark.kafka.formats import reading
from airflow_backfill.spark.run.interpreter import Shell
from airflow_backfill.spark.run.stream import follow
from airflow_backfill.spark.source.key_order import KeyOrder
from airflow_backfill.spark.target_table import apply
from airflow_backfill.spark.transform.literal import literal
from airflow_backfill.spark.transform.transform import parse
from tests.spark.build import Build
from tests.spark.history import Source

pytestmark = pytest.mark.spark

HOME, JAVA, NONE = "${env:HOME}", "${system:user.dir}", "${nothing:x}"
KEYS = ("a", HOME, JAVA, NONE, "$", "z")
COLUMNS = ("id", HOME, "na.me", "n")
"""The second one is the partition column; its values are such texts, too."""


@pytest.fixture
def texts(spark: SparkSession, tmp_path: Path) -> Source:
    """A table whose keys, partitions and column names look like variables, in a session in which they would be some."""
    session = spark.newSession()
    session.conf.set("spark.sql.variable.substitute", "true")
    assert session.range(1).select(F.expr(f"'{HOME}'")).head()[0] != HOME
    source = Source(session, str(tmp_path / "source"), COLUMNS)
    rows = [(key, HOME if key < "a" else NONE, key, 1) for key in KEYS]
    frame = session.createDataFrame(rows, f"id string, `{HOME}` string, `na.me` string, n int")
    table = DeltaTable.create(session).location(source.path).addColumns(frame.schema).partitionedBy(HOME)
    table.property("delta.enableChangeDataFeed", "true").property("delta.columnMapping.mode", "name").execute()
    frame.write.format("delta").mode("append").save(source.path)
    return source


@pytest.mark.parametrize("strategy", ["snapshot", pytest.param("arrangement", marks=pytest.mark.soak)])
def test_keys_partitions_and_expressions_of_a_build(
    texts: Source, tmp_path: Path, strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apply, "NARROW_BYTES", 0)
    select = ["id", f"`{HOME}`", f"concat(`na.me`, '{HOME}') AS `{JAVA}`", "n"]
    build = Build(
        texts, tmp_path / "target", strategy=strategy, select=select, where=f"id <> 'z' AND '{HOME}' LIKE '$%'"
    )
    build.plan()
    change(texts, 2)
    build.snapshot()
    change(texts, 3)
    assert build.complete().phase is Phase.FINISHED
    change(texts, 4)
    build.upstream()
    found = {tuple(row) for row in build.rows().collect()}
    assert found == {(key, HOME if key < "a" else NONE, key + HOME, 4) for key in KEYS if key != "z"}
    assert build.rows().columns == ["id", HOME, JAVA, "n"]
    session = follow(texts.spark, build.target).sparkSession
    assert session.range(1).select(F.expr(f"'{HOME}'")).first() == (HOME,)


def change(source: Source, n: int) -> None:
    """One update of every row, in SQL that names none of the texts."""
    source.spark.sql(f"UPDATE delta.`{source.path}` SET n = {n}")


def test_the_bounds_of_a_merge(texts: Source) -> None:
    Shell(texts.spark, texts.path)
    bound = literal(HOME, StringType())
    assert bound is not None
    assert texts.spark.range(1).select(F.expr(bound)).first() == (HOME,)


def test_the_borders_of_ranges(texts: Source) -> None:
    Shell(texts.spark, texts.path)
    order = KeyOrder(("id",), (StringType(),))
    rows = texts.spark.createDataFrame([(key,) for key in KEYS], "id string")
    for border in KEYS:
        upto = rows.where(order.upto(order.border([border]))).collect()
        assert {row.id for row in upto} == {key for key in KEYS if key <= border}


def test_the_schema_of_json(texts: Source) -> None:
    Shell(texts.spark, texts.path)
    json = reading("value", Format(JSON, f"`{HOME}` STRING"))
    row = texts.spark.createDataFrame([(f'{{"{HOME}": "{JAVA}"}}',)], "raw string")
    assert row.select(json.decoded(json.look(F.col("raw"))).alias("it")).select("it.*").collect() == [(JAVA,)]


def test_a_variable_of_the_session_is_no_column(spark: SparkSession) -> None:
    session = spark.newSession()
    session.sql("DECLARE VARIABLE found = 7")
    schema = session.range(1).schema
    with pytest.raises(InvalidExpression, match="variable of a session"):
        parse(session, schema, ["id", "found AS x"])
    with pytest.raises(InvalidExpression, match="variable of a session"):
        parse(session, schema, where="id = found")
