"""The digest finds every single corruption, and nothing else."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from airflow_backfill.core.errors import UnsupportedTable
from airflow_backfill.core.values.digest import Digest
from airflow_backfill.core.values.row_hash import RowHash
from airflow_backfill.spark.digest.canonical import canonical_row
from airflow_backfill.spark.digest.digest import digested, digests, digests_by
from airflow_backfill.spark.verify.differences import Kind, compare, differences, differing_keys

pytestmark = pytest.mark.spark

CASES = 1000
COLUMNS = (
    "id bigint, i int, s string, t string, de decimal(10,2), ts timestamp, nt timestamp_ntz, d double, b binary, "
    "a array<int>, m map<string,int>, st struct<x:int,y:string>, dt date, aa array<array<string>>"
)
Rows = list[list[Any]]
ID, INT, S, T, DE, TS, NT, D, B, A, M, ST, DT, AA = range(14)


def made(random_: random.Random) -> Rows:
    """Six rows with values of every type, some of them null."""

    def maybe(value: Any) -> Any:
        return None if random_.random() < 0.15 else value

    def row(id_: int) -> list[Any]:
        r = random_
        at = datetime(2020, 1, 1) + timedelta(microseconds=r.randrange(10**15))
        return [
            id_,
            maybe(r.randrange(100)),
            *((f"s{r.randrange(50)}", None) if r.random() < 0.5 else (None, f"s{r.randrange(50)}")),
            maybe(Decimal(r.randrange(10**6)) / 100),
            at,
            maybe(at),
            maybe(r.choice([0.0, 1.5, float("nan"), float("inf"), r.random()])),
            maybe(r.randbytes(3)),
            maybe([maybe(r.randrange(9)) for _ in range(r.randrange(3))]),
            maybe({f"k{n}": maybe(n) for n in range(r.randrange(3))}),
            maybe((maybe(r.randrange(9)), maybe("y"))),
            maybe(date(2020, 1, 1) + timedelta(days=r.randrange(1000))),
            maybe([["x"], [], maybe(["y", None])]),
        ]

    return [row(id_) for id_ in random_.sample(range(1000), 6)]


def set_cell(rows: Rows, r: random.Random, column: int, new: Callable[[Any], Any]) -> None:
    row = r.choice(rows)
    row[column] = new(row[column])


CORRUPTIONS: list[Callable[[Rows, random.Random], Any]] = [
    lambda rows, r: rows.remove(r.choice(rows)),
    lambda rows, r: rows.append(list(r.choice(rows))),
    lambda rows, r: rows.extend([list(r.choice(rows))] * 2),
    lambda rows, r: rows.append(made(r)[0]),
    lambda rows, r: set_cell(rows, r, ID, lambda v: v + 1000),
    lambda rows, r: set_cell(rows, r, INT, lambda v: 100 if v is None else v + 1),
    lambda rows, r: set_cell(rows, r, INT, lambda v: 0 if v is None else None),
    lambda rows, r: (row := r.choice(rows), row.__setitem__(slice(S, T + 1), [row[T], row[S]])),
    lambda rows, r: set_cell(rows, r, S, lambda v: "" if v is None else v + " "),
    lambda rows, r: set_cell(rows, r, T, lambda v: "null" if v is None else v.upper()),
    lambda rows, r: set_cell(rows, r, DE, lambda v: Decimal("0.01") + (v or 0) if v != 0 else None),
    lambda rows, r: set_cell(rows, r, TS, lambda v: v + timedelta(microseconds=r.choice([-1, 1]))),
    lambda rows, r: set_cell(rows, r, NT, lambda v: (v and v + timedelta(microseconds=1)) or datetime(1970, 1, 1)),
    lambda rows, r: set_cell(rows, r, D, lambda v: 7.0 if v is None or v != v or v == float("inf") else v + 2**-40),
    lambda rows, r: set_cell(rows, r, B, lambda v: b"" if v is None else v + b"\0"),
    lambda rows, r: set_cell(rows, r, A, lambda v: [] if v is None else [*v, None]),
    lambda rows, r: set_cell(rows, r, M, lambda v: {} if v is None else {**v, "extra": None}),
    lambda rows, r: set_cell(rows, r, ST, lambda v: (None, None) if v is None else None),
    lambda rows, r: set_cell(rows, r, ST, lambda v: (None, "z") if v is None else (v[0], "z")),
    lambda rows, r: set_cell(rows, r, DT, lambda v: None if v else date(1970, 1, 1)),
    lambda rows, r: set_cell(rows, r, AA, lambda v: [[]] if v is None else [["x", "y"], *v[1:]]),
    lambda rows, r: rows.__setitem__(0, rows[0][:INT] + rows[1][INT:]),
]


def by_case(spark: SparkSession, cases: list[Rows], by: RowHash) -> dict[int, Digest]:
    numbered = [[case, *row] for case, rows in enumerate(cases) for row in rows]
    rows = spark.createDataFrame(numbered, StructType.fromDDL(f"case int, {COLUMNS}"))
    return digests_by(digested(rows, StructType.fromDDL(COLUMNS), by), F.col("case"))


@pytest.mark.parametrize("by", [RowHash.TYPED, pytest.param(RowHash.SHA256, marks=pytest.mark.soak)])
def test_a_thousand_corruptions_are_found_and_a_thousand_equal_tables_are_equal(
    spark: SparkSession, by: RowHash
) -> None:
    truth = [made(random.Random(seed)) for seed in range(CASES)]
    corrupt, shuffled = [], []
    for seed, rows in enumerate(truth):
        changed = [list(row) for row in rows]
        CORRUPTIONS[seed % len(CORRUPTIONS)](changed, random.Random(-seed - 1))
        corrupt.append(changed)
        shuffled.append(random.Random(seed).sample(rows, len(rows)))
    right = by_case(spark, truth, by)
    assert len(right) == CASES
    assert compare(right, by_case(spark, shuffled, by)) == []
    missed = set(range(CASES)) - set(compare(right, by_case(spark, corrupt, by)))
    assert missed == set(), {case: (truth[case], corrupt[case]) for case in list(missed)[:3]}


OTHER_TYPES = [
    ("1", "1L"),
    ("1.5f", "1.5d"),
    ("1.50BD", "1.500BD"),
    ("'1'", "1"),
    ("date'2020-01-01'", "timestamp'2020-01-01'"),
    ("timestamp'2020-01-01'", "timestamp_ntz'2020-01-01'"),
    ("'a'", "cast('a' as binary)"),
]
SAME_TYPE = [
    ("array('a', 'b')", "array('ab', '')"),
    ("struct(1, cast(null as int))", "struct(cast(null as int), 1)"),
    ("struct(cast(null as int))", "cast(null as struct<col1: int>)"),
    ("struct(struct(cast(null as int)))", "struct(cast(null as struct<col1: int>))"),
    ("struct('at', 'b')", "struct('a', 'tb')"),
    ("struct('a1:', 'b')", "struct('a', '1:b')"),
    ("array(array(), array(1))", "array(array(1), array())"),
    ("map('a', 1)", "map('b', 1)"),
    ("parse_json('1')", "parse_json('\"1\"')"),
    ("'a' COLLATE UTF8_LCASE", "'A' COLLATE UTF8_LCASE"),
    ("''", "cast(null as string)"),
    ("0", "cast(null as int)"),
    ("cast('' as binary)", "cast(null as binary)"),
    ("123456789012345678901234.01BD", "123456789012345678901234.02BD"),
]


def hashed(spark: SparkSession, sql: str, by: RowHash) -> tuple[int, ...]:
    rows = spark.sql(f"SELECT {sql} AS v")
    return tuple(digested(rows, rows.schema, by).drop("v").first())[-2:]


@pytest.mark.parametrize(
    ("by", "one", "other"),
    [(RowHash.SHA256, *pair) for pair in OTHER_TYPES + SAME_TYPE] + [(RowHash.TYPED, *pair) for pair in SAME_TYPE],
)
def test_values_that_look_alike_are_told_apart(spark: SparkSession, by: RowHash, one: str, other: str) -> None:
    here, there = hashed(spark, one, by), hashed(spark, other, by)
    assert all(half != half_there for half, half_there in zip(here, there, strict=True))


@pytest.mark.parametrize("by", RowHash)
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("-0.0d", "0.0d"),
        ("-0.0f", "0.0f"),
        ("cast('NaN' as double)", "sqrt(-1.0d)"),
        ("struct(-0.0d)", "struct(0.0d)"),
        ("map('a', 1, 'b', 2)", "map('b', 2, 'a', 1)"),
        ("timestamp'2020-01-01 00:00:00Z'", "timestamp'2020-01-01 02:00:00+02:00'"),
        ('parse_json(\'{"a": 1, "b": 2}\')', 'parse_json(\'{"b":2,"a":1}\')'),
    ],
)
def test_one_value_in_two_guises_is_one(spark: SparkSession, by: RowHash, one: str, other: str) -> None:
    assert hashed(spark, one, by) == hashed(spark, other, by)


def test_each_of_many_nulls_counts(spark: SparkSession) -> None:
    names = [f"c{n}" for n in range(130)]
    ones = spark.createDataFrame([(n,) for n in (0, 62, 63, 64, 126, 129, 999)], "one int")
    rows = ones.select(*(F.when(F.col("one") == n, 1).alias(name) for n, name in enumerate(names)))
    found = digested(rows, rows.schema, RowHash.TYPED).drop(*names).collect()
    assert len(set(found)) == 7


def test_a_type_that_has_no_text_is_refused(spark: SparkSession) -> None:
    with pytest.raises(UnsupportedTable, match="interval"):
        canonical_row(spark.sql("SELECT INTERVAL '1' DAY AS v").schema)


@pytest.mark.parametrize("by", RowHash)
@pytest.mark.parametrize("name", ["the key", "kind"])
def test_the_keys_that_differ_are_named_and_told_apart(spark: SparkSession, name: str, by: RowHash) -> None:
    source = spark.range(100).selectExpr(f"id AS `{name}`", "concat('v', id) AS v")
    target = source.where(f"`{name}` <> 7").selectExpr(f"`{name}`", f"if(`{name}` = 8, 'old', v) AS v")
    target = target.union(spark.sql("SELECT 200L, 'x'")).union(source.where(f"`{name}` = 9"))
    key = [name]
    here, there = digests(source, 16, key, by), digests(target, 16, key, by)
    found = compare(here, there)
    assert 0 < len(found) <= 4
    keys = differing_keys(source, target, key, by, found, 16)
    seen = differences(keys, key, limit=20)
    assert seen.counts == {Kind.MISSING: 1, Kind.STALE: 1, Kind.EXTRA: 2}
    assert list(seen.sample) == [
        (Kind.MISSING, {name: "7"}),
        (Kind.STALE, {name: "8"}),
        (Kind.EXTRA, {name: "9"}),
        (Kind.EXTRA, {name: "200"}),
    ]
    assert len(differences(keys, key, limit=2).sample) == 2


@pytest.mark.parametrize("by", RowHash)
def test_pairs_of_rows_do_not_cancel_out(spark: SparkSession, by: RowHash) -> None:
    one = spark.sql("SELECT * FROM VALUES (1), (1), (2) AS t(x)")
    other = spark.sql("SELECT * FROM VALUES (3), (3), (2) AS t(x)")
    assert compare(digests(one, 1, None, by), digests(other, 1, None, by)) == [0]


@pytest.mark.parametrize("by", RowHash)
def test_without_a_key_rows_are_a_multiset(spark: SparkSession, by: RowHash) -> None:
    source = spark.sql("SELECT * FROM VALUES (1, 'a'), (1, 'a'), (2, 'b') AS t(x, y)")
    same = spark.sql("SELECT * FROM VALUES (2, 'b'), (1, 'a'), (1, 'a') AS t(x, y)")
    other = spark.sql("SELECT * FROM VALUES (2, 'b'), (2, 'b'), (1, 'a') AS t(x, y)")
    assert compare(digests(source, 8, None, by), digests(same, 8, None, by)) == []
    found = compare(digests(source, 8, None, by), digests(other, 8, None, by))
    keys = differing_keys(source, other, None, by, found, 8)
    seen = differences(keys, None, limit=20)
    assert seen.counts == {Kind.MISSING: 1, Kind.EXTRA: 1}
    assert [len(values["digest"] or "") for _, values in seen.sample] == [32, 32]
