"""What an expression may be, what becomes of a row, and which columns keep the key."""

from __future__ import annotations

import json

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, IntegerType, StructField, StructType

from airflow_backfill.core.errors import InvalidExpression, KeyInvalid, UnsupportedTable
from airflow_backfill.spark.digest.canonical import check_canonical
from airflow_backfill.spark.transform.expression import Checker
from airflow_backfill.spark.transform.functions import ALLOWED
from airflow_backfill.spark.transform.transform import parse, schema_of

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def schema(spark: SparkSession) -> StructType:
    return StructType.fromDDL(
        "id bigint NOT NULL, a int, b string, arr array<int>, s struct<f:int,g:string>, m map<string,int>, d date, "
        "ts timestamp, `x.y` int, `q``r` string, `sp ace` int, v variant, fl double"
    )


def log_schema(*columns: tuple[str, str]) -> str:
    """As a table's log has it."""
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in columns]
    return json.dumps({"type": "struct", "fields": fields})


@pytest.mark.parametrize("damaged", ["", "{", "[]", "{}", log_schema(("x", "no_such_type"))])
def test_a_schema_that_spark_cannot_read_is_refused(damaged: str) -> None:
    with pytest.raises(UnsupportedTable, match="Spark cannot read the table's schema"):
        schema_of(damaged)


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ([("x", "long"), ("X", "long")], "'x' and 'X', which differ only in case, so Spark cannot tell them apart"),
        ([("id", "long"), ("g", "geometry")], "leave it out of select|build from a table without that column"),
    ],
    ids=["case", "geometry"],
)
def test_columns_that_cannot_be_kept_are_refused(spark: SparkSession, columns: list[tuple[str, str]], why: str) -> None:
    with pytest.raises(UnsupportedTable, match=why):
        check_canonical(parse(spark, schema_of(log_schema(*columns))).schema)


def test_all_columns_as_they_are(spark: SparkSession, schema: StructType) -> None:
    transform = parse(spark, schema)
    assert transform.schema == schema
    assert [o.source for o in transform.outputs] == schema.names


def test_spark_is_not_asked_for_each_column_as_it_is(
    spark: SparkSession, schema: StructType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each answer takes longer the more columns there are: with a thousand, seconds at the start of every task."""
    asked: list[str] = []
    real = Checker._resolved
    monkeypatch.setattr(Checker, "_resolved", lambda self, sql: (asked.append(sql), real(self, sql))[1])
    assert parse(spark, schema, where="a > 1").uses == set(schema.names)
    assert asked == ["a > 1"]
    parse(spark, schema, ["id", "`a`", "`x.y`", "b AS c"])
    assert asked == ["a > 1", "`x.y`", "b AS c"]


def test_a_column_that_is_named_alone_is_what_spark_makes_of_it(spark: SparkSession, schema: StructType) -> None:
    odd = StructType.fromDDL("current_date int, user string, `true` int, `A` int NOT NULL, s struct<f:int>, `s.f` int")
    for columns, names in (
        (schema, ["id", "a", "`b`", "arr", "s", "s.f", "m", "v", "`x.y`", "`q``r`", "`sp ace`", "A"]),
        (odd, ["current_date", "user", "`true`", "A", "a", "s", "s.f", "`s.f`"]),
    ):
        checker, asking = (Checker(spark, columns, ALLOWED) for _ in range(2))
        asking._plain.clear()
        assert [checker.column(name) for name in names] == [asking.column(name) for name in names]


def test_what_the_source_says_about_its_columns_does_not_reach_the_target(spark: SparkSession) -> None:
    note = {"delta.columnMapping.id": 1, "delta.generationExpression": "1"}
    inner = StructType([StructField("f", IntegerType(), True, note)])
    schema = StructType([StructField("a", ArrayType(inner), True, note)])
    plain = "struct<a:array<struct<f:int>>>"
    assert parse(spark, schema).schema.simpleString() == plain
    assert "delta" not in parse(spark, schema).schema.json()


@pytest.mark.parametrize(
    ("sql", "made"),
    [
        ("id AS k", "k bigint"),
        ("upper(b) AS u", "u string"),
        ("A", "A int"),
        ("`x.y`", "x.y int"),
        ("`q``r` AS `back``tick`", "back`tick string"),
        ("s.f", "f int"),
        ("s.f + 1 AS n", "n int"),
        ("arr[0] AS first", "first int"),
        ("a -- a comment", "a int"),
        ("if(a > 1 AND b LIKE 'x%', 1, 2) AS i", "i int"),
        ("CASE WHEN a > 1 THEN 'x' END AS w", "w string"),
        ("transform(arr, x -> x + 1) AS t", "t array<int>"),
        ("exists(arr, x -> x > 1) AS e", "e boolean"),
        ("aggregate(arr, 0, (x, y) -> x + y) AS g", "g int"),
        ("a::string AS t", "t string"),
        ("date_trunc('DAY', ts) AS day", "day timestamp"),
        ("extract(year FROM d) AS y", "y int"),
        ("d + INTERVAL '1' DAY AS next", "next date"),
        ("variant_get(v, '$.a', 'int') AS i", "i int"),
        ("b || 'x' AS bx", "bx string"),
        ("DATE'2020-01-01' AS then", "then date"),
        ("named_struct('today', 'now') AS word", "word struct<today:string>"),
        ("named_struct('x', NULL) AS s", "s struct<x:void>"),
        ("b COLLATE UTF8_LCASE = 'B' AS same", "same boolean"),
    ],
)
def test_what_may_be_selected(spark: SparkSession, schema: StructType, sql: str, made: str) -> None:
    (field,) = parse(spark, schema, [sql]).schema.fields
    assert f"{field.name} {field.dataType.simpleString()}" == made


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("", "empty"),
        ("a + 1", "needs a name"),
        ("zz AS q", "zz"),
        ("_metadata.file_path AS p", "_metadata"),
        ("a AS b, c", "not one SQL expression"),
        ("a /* x", "not one SQL expression"),
        ("a; DROP TABLE t", "not one SQL expression"),
        ("*", "one by one"),
        ("s.*", "one by one"),
        ("a AS (x, y)", "several"),
        ("NULL AS n", "void"),
        ("INTERVAL '1' DAY AS i", "interval"),
        ("struct(s.f, s.f) AS q", "two fields named 'f'"),
        ("map('k', array(named_struct('x', a, 'X', a))) AS q", "two fields named 'X'"),
        ("b COLLATE UNICODE_CI AS q", "string collate UNICODE_CI, which a table cannot store; cast it"),
        ("array(b COLLATE UTF8_LCASE) AS q", "collate UTF8_LCASE"),
        ("array() AS q", "array<void>, which a table cannot store; cast it"),
        ("map('k', NULL) AS q", "map<string,void>"),
        ("array(named_struct('x', NULL)) AS q", "array<struct<x:void>>"),
        ("a AS `_change_type`", "reserved"),
        ("a AS `_BACKFILL_op`", "reserved"),
        ("a AS ` `", "not a valid column name"),
        ("a AS `x\ny`", "not a valid column name"),
        ("(SELECT 1) AS q", "subquery"),
        ("a IN (SELECT 1) AS q", "subquery"),
        ("sum(a) AS q", "sum"),
        ("sum(a) OVER () AS q", "window"),
        ("explode(arr) AS q", "explode"),
        ("rand() AS q", "rand"),
        ("uuid() AS q", "uuid"),
        ("reflect('java.lang.Math', 'random') AS q", "reflect"),
        ("java_method('java.lang.Math', 'random') AS q", "java_method"),
        ("try_reflect('java.lang.Math', 'random') AS q", "try_reflect"),
        ("input_file_name() AS q", "input_file_name"),
        ("monotonically_increasing_id() AS q", "monotonically_increasing_id"),
        ("spark_partition_id() AS q", "spark_partition_id"),
        ("current_timestamp() AS q", "current_timestamp"),
        ("current_date AS q", "time or the user of the run"),
        ("current_user AS q", "time or the user of the run"),
        ("unix_timestamp() AS q", "time or the user of the run"),
        ("TIMESTAMP'now' AS q", "time or the user of the run"),
        ("DATE' Tomorrow ' AS q", "time or the user of the run"),
        ("version() AS q", "version"),
        ("system.builtin.upper(b) AS q", "system"),
        ("my_function(b) AS q", "my_function"),
        (":p AS q", "parameter"),
        ("identifier('a') AS q", "IDENTIFIER clause"),
        ("hash(m) AS q", "does not fit"),
    ],
)
def test_what_may_not_be_selected(spark: SparkSession, schema: StructType, sql: str, reason: str) -> None:
    with pytest.raises(InvalidExpression, match=f"(?is){reason}") as raised:
        parse(spark, schema, [sql])
    assert raised.value.data["expression"].strip() == sql.strip()


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("a", "has type int"),
        ("a > 1 AS c", "has a name"),
        ("zz > 1", "zz"),
        ("1=1; DROP TABLE t", "not one SQL expression"),
        ("a > 'x", "not one SQL expression"),
        ("rand() < 0.5", "rand"),
        ("ts < now()", "now"),
        ("ts < TIMESTAMP 'today'", "time or the user of the run"),
        ("EXISTS (SELECT 1)", "subquery"),
        ("a > (SELECT max(id) FROM t)", "subquery"),
    ],
)
def test_what_may_not_be_a_filter(spark: SparkSession, schema: StructType, where: str, reason: str) -> None:
    with pytest.raises(InvalidExpression, match=f"(?is){reason}"):
        parse(spark, schema, where=where)


def test_a_list_without_columns_and_columns_with_one_name(spark: SparkSession, schema: StructType) -> None:
    with pytest.raises(InvalidExpression, match="select is empty"):
        parse(spark, schema, [])
    with pytest.raises(InvalidExpression, match="two columns"):
        parse(spark, schema, ["a", "b AS A"])


def test_a_source_with_columns_of_a_change_feed_is_refused(spark: SparkSession) -> None:
    with pytest.raises(InvalidExpression, match=r"reserved.*rename it there"):
        parse(spark, StructType.fromDDL("id bigint, _Commit_Version int"))


def test_every_allowed_function_is_one_of_sparks(spark: SparkSession) -> None:
    registry = spark._jsparkSession.sessionState().functionRegistry().listFunction().iterator()
    names = set()
    while registry.hasNext():
        names.add(registry.next().funcName())
    assert names >= ALLOWED


def test_rows(spark: SparkSession) -> None:
    rows = spark.sql("SELECT * FROM VALUES (1, 'a', 10), (2, NULL, 20), (3, 'c', NULL) AS t(`my id`, v, n)")
    transform = parse(spark, rows.schema, ["`my id` AS k", "upper(v) AS v"], "n > 5")
    assert [tuple(r) for r in transform.apply(rows).collect()] == [(1, "A"), (2, None)]
    assert [r[0] for r in rows.select(transform.passes()).collect()] == [True, True, False]


def test_columns_are_those_of_the_source_in_whatever_case_they_are_written(spark: SparkSession) -> None:
    schema = StructType.fromDDL("Id bigint, Name string, Part int, n int")
    transform = parse(spark, schema, ["iD AS k", "upper(NAME) AS name"], "part > 1")
    assert transform.uses == {"Id", "Name", "Part"}
    assert transform.target_key(["ID"]) == ("k",)
    session = spark.newSession()
    session.conf.set("spark.sql.caseSensitive", "true")
    assert parse(session, StructType.fromDDL("n int, N int"), ["n"], "n > 1").uses == {"n"}


@pytest.mark.parametrize(
    ("select", "key", "target"),
    [
        (None, ["ID"], ("id",)),
        (["b", "id AS k"], ["id"], ("k",)),
        (["`x.y` AS p", "id"], ["id", "x.y"], ("id", "p")),
        (["id AS first", "id AS second"], ["id"], ("first",)),
    ],
)
def test_the_key_survives(
    spark: SparkSession, schema: StructType, select: list[str] | None, key: list[str], target: tuple[str, ...]
) -> None:
    assert parse(spark, schema, select).target_key(key) == target


@pytest.mark.parametrize(
    ("select", "key", "reason"),
    [
        (None, "nope", "no column 'nope'"),
        (["a"], "id", "key column 'id' is missing or changed"),
        (["id + 0 AS id"], "id", "missing or changed"),
        (["cast(id AS int) AS id"], "id", "missing or changed"),
        (None, "fl", "double"),
        (None, "m", "map"),
        (None, "arr", "array"),
        (None, "s", "struct"),
        (None, "v", "variant"),
    ],
)
def test_the_key_does_not_survive(
    spark: SparkSession, schema: StructType, select: list[str] | None, key: str, reason: str
) -> None:
    with pytest.raises(KeyInvalid, match=reason):
        parse(spark, schema, select).target_key([key])
