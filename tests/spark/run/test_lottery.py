"""Builds in Sparks that were set up in any way: each is equal in the end, or refused with a code before it begins."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_backfill.core.attempts.proving import prove
from airflow_backfill.core.errors import UnsafeOption
from airflow_backfill.core.values.round_size import RoundSize
from airflow_backfill.core.values.row_hash import RowHash
from airflow_backfill.spark.run.interpreter import Shell
from tests.spark import every_type
from tests.spark.build import Build
from tests.spark.history import Source
from tests.spark.run.lottery import COST, MEANING, REFUSED, Settings, drawn, given

pytestmark = [pytest.mark.spark, pytest.mark.soak]

SEEDS = range(40)
COLUMNS = ("id", "part", "name", "n")

CHANGES = (
    "UPDATE $table SET name = concat(name, '+'), part = (part + 1) % 3, f = f + 1 WHERE id % 7 = {n}",
    "UPDATE $table SET ts = ts - interval 400 years, dt = dt - interval 400 years WHERE id % 9 = {n}",
    "UPDATE $table SET id = id + 100000 WHERE id % 13 = {n}",
    "UPDATE $table SET f = 0.0 WHERE f = 0",
    "DELETE FROM $table WHERE id % 11 = {n}",
    "DELETE FROM $table WHERE part = {n}",
    "INSERT OVERWRITE $table SELECT * FROM $table WHERE id % 10 <> {n}",
    "INSERT INTO $table REPLACE WHERE part = {n} SELECT * FROM $table WHERE part = {n} AND id % 2 = 0",
    "DELETE FROM $table",
    "OPTIMIZE $table",
    "OPTIMIZE $table ZORDER BY (n, id)",
    "ALTER TABLE $table SET TBLPROPERTIES (x = '{n}')",
)
SELECTS = (None, list(every_type.SELECT), ["id", "upper(name) AS label", "ts", "dt", "c", "d * n AS product"])
KINDS = (
    {"strategy": "snapshot"},
    {"strategy": "snapshot", "proof": "incremental"},
    {"strategy": "snapshot", "proof": "sampled"},
    {"strategy": "snapshot", "clustering": "key"},
    {"strategy": "arrangement"},
    {"strategy": "arrangement", "clustering": "key"},
    {"strategy": "chain", "proof": "incremental"},
    {"strategy": "chain", "key": None},
)


def live(source: Source, rng: random.Random, *, only_adds: bool) -> None:
    """Some more epochs."""
    for _ in range(rng.randrange(1, 4)):
        every_type.add(source, 1000 * source.head)
        if not only_adds:
            source.sql(rng.choice(CHANGES).format(n=rng.randrange(3)))


def compare(build: Build, meaning: Settings, epoch: int) -> None:
    """The target is what its source says at the epoch, in a plain Spark that means the same."""
    spark = build.source.spark.newSession()
    for name, value in meaning.items():
        spark.conf.set(name, value)
    source = spark.read.format("delta").option("versionAsOf", epoch).load(build.source.path)
    due = source.where(build.spec.where or "true")
    due = due.selectExpr(*build.spec.select) if build.spec.select else due
    plain = build.source.spark.read.format("delta").load(build.target)
    assert plain.columns == due.columns
    there, wanted = (Counter(map(repr, rows.collect())) for rows in (plain, due))
    assert wanted - there == Counter(), "rows that are missing"
    assert there - wanted == Counter(), "rows that should not be there"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_build_with_any_settings(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    source = Source(spark, str(tmp_path / "source"), COLUMNS)
    every_type.create(source)
    kind, select = rng.choice(KINDS), rng.choice(SELECTS)
    only_adds = kind.get("key", "id") is None
    spec = {**kind, "select": select, "where": rng.choice((None, every_type.WHERE))}
    meaning = drawn(rng, MEANING, rng.randrange(4))
    tasks = [meaning | drawn(rng, COST, rng.randrange(12)) for _ in range(3)]
    print(seed, spec, meaning, *tasks, sep="\n  ")
    build = Build(source, tmp_path / "target", **spec)
    build.size = RoundSize(rows=rng.choice((150, 1000)))

    if rng.random() < 0.3:
        name = rng.choice(list(REFUSED))
        with given(spark, {name: REFUSED[name]}) as build.spark, pytest.raises(UnsafeOption, match=name):
            build.plan()
        assert not Path(build.target).exists()
    with given(spark, tasks[0]) as build.spark:
        build.plan()
        live(source, rng, only_adds=only_adds)
        build.snapshot()
    live(source, rng, only_adds=only_adds)
    with given(spark, tasks[1]) as build.spark:
        build.consume_log()
        live(source, rng, only_adds=only_adds)
        build.catch_up()
        build.verify()
    with given(spark, tasks[2]) as build.spark:
        state = build.finish()
        compare(build, meaning, state.handoff)
        live(source, rng, only_adds=only_adds)
        build.upstream()
        assert Shell(build.spark, build.target).run(prove(None, RowHash.SHA256)).epoch == source.head
    compare(build, meaning, source.head)
