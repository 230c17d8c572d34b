"""What a build cannot get past is known at the plan or at the next round; what it does not need stops nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_backfill.core.errors import BackfillError, FeedOff, SchemaChanged, TargetRefuses, UnsafeOption
from airflow_backfill.ledger.admission import OWNER
from airflow_backfill.spark.session.failure import coded
from tests.spark.build import Build
from tests.spark.history import Source

pytestmark = pytest.mark.spark

MAPPED = "ALTER TABLE $table SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"


def planned(source: Source, tmp_path: Path, **spec: object) -> Build:
    build = Build(source, tmp_path / "target", **spec)
    build.plan()
    return build


@pytest.mark.soak
@pytest.mark.parametrize("strategy", ["snapshot", "arrangement"])
def test_a_column_that_nothing_uses_is_dropped_renamed_and_changed_and_the_build_goes_on(
    source: Source, tmp_path: Path, strategy: str
) -> None:
    source.sql(MAPPED)
    spec = {"select": ["id", "upper(name) AS name"], "where": "id % 7 <> 3", "strategy": strategy}
    build = Build(source, tmp_path / "target", **spec)
    assert build.plan().plan.source.columns == ("id", "name")
    source.append(1000, 1020)
    source.sql("DELETE FROM $table WHERE $id % 10 = 2")
    source.sql("ALTER TABLE $table DROP COLUMN $n")
    build.snapshot()
    source.sql("UPDATE $table SET $name = 'updated' WHERE $id % 10 = 1")
    source.sql("ALTER TABLE $table RENAME COLUMN $part TO other")
    source.sql("DELETE FROM $table WHERE $id % 10 = 4")
    build.complete()
    build.assert_equal_at(source.head)
    source.sql("INSERT INTO $table VALUES (7000, 1, 'late')")
    source.sql("ALTER TABLE $table DROP COLUMN other")
    source.sql("UPDATE $table SET $name = 'later' WHERE $id > 6000")
    build.upstream()
    build.assert_equal_at(source.head)


def test_a_column_that_is_selected_and_dropped_ends_the_snapshot_at_its_next_round(
    source: Source, tmp_path: Path
) -> None:
    source.sql(MAPPED)
    build = planned(source, tmp_path, select=["id", "n + 1 AS n"])
    source.append(1000, 1020)
    source.sql("ALTER TABLE $table DROP COLUMN $n")
    commits = build.reader.log.head()
    for _ in range(2):
        with pytest.raises(SchemaChanged, match=f"epoch {source.head} drops or renames column 'n'"):
            build.snapshot()
    assert build.reader.log.head() == commits


def test_a_feed_that_is_switched_off_ends_the_snapshot_at_its_next_round(source: Source, tmp_path: Path) -> None:
    build = planned(source, tmp_path)
    source.append(1000, 1020)
    source.sql("ALTER TABLE $table SET TBLPROPERTIES (delta.enableChangeDataFeed = false)")
    with pytest.raises(FeedOff, match=f"epoch {source.head}"):
        build.snapshot()


RULES = [
    ("SET TBLPROPERTIES (delta.setTransactionRetentionDuration = 'interval 1 hour')", UnsafeOption,
     "UNSET TBLPROPERTIES ('delta.setTransactionRetentionDuration')"),
    ("SET TBLPROPERTIES (delta.appendOnly = true)", TargetRefuses,
     "SET TBLPROPERTIES ('delta.appendOnly' = 'false')"),
    ("ADD CONSTRAINT small CHECK (id < 1000)", TargetRefuses, "DROP CONSTRAINT `small`"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "error", "way_out"), RULES, ids=["transaction retention", "append only", "check"])
def test_a_rule_of_the_target_is_named_before_a_round_meets_it_and_taken_off_by_what_the_error_says(
    source: Source, tmp_path: Path, rule: str, error: type[BackfillError], way_out: str
) -> None:
    build = planned(source, tmp_path)
    target = f"ALTER TABLE delta.`{build.target}`"
    build.spark.sql(f"{target} {rule}")
    commits = build.reader.log.head()
    for run in (build.snapshot, build.plan):
        with pytest.raises(error) as raised:
            run()
        assert f"{target} {way_out}" in str(raised.value)
    assert build.reader.log.head() == commits
    build.spark.sql(f"{target} {way_out}")
    build.snapshot()
    build.assert_equal_at(source.head)


@pytest.mark.parametrize(
    "name", ["appendOnly", pytest.param("setTransactionRetentionDuration", marks=pytest.mark.soak)]
)
def test_a_session_that_makes_every_table_so_is_refused_before_there_is_one(
    spark: SparkSession, source: Source, tmp_path: Path, name: str
) -> None:
    setting = f"spark.databricks.delta.properties.defaults.{name}"
    build = Build(source, tmp_path / "target")
    spark.conf.set(setting, "true" if name == "appendOnly" else "interval 1 day")
    try:
        with pytest.raises(UnsafeOption, match=setting):
            build.plan()
    finally:
        spark.conf.unset(setting)
    assert not Path(build.target).exists()
    build.plan()


def test_a_session_in_which_more_is_committed_than_a_round_is_refused_before_its_first_one(
    spark: SparkSession, source: Source, tmp_path: Path
) -> None:
    setting = "spark.databricks.delta.optimizeWrite.enabled"
    build = planned(source, tmp_path)
    spark.conf.set(setting, "true")
    try:
        with pytest.raises(UnsafeOption, match=f"{setting} is true"):
            build.snapshot()
    finally:
        spark.conf.unset(setting)
    assert build.rows().count() == 0


def test_a_target_that_its_user_made_otherwise_is_refused_before_a_build_is_planned(
    spark: SparkSession, source: Source, tmp_path: Path
) -> None:
    build = Build(source, tmp_path / "target")
    columns = "n STRING, id BIGINT NOT NULL, part INT, name STRING"
    spark.sql(f"CREATE TABLE delta.`{build.target}` ({columns}) USING delta TBLPROPERTIES ('{OWNER}' = 'build')")
    with pytest.raises(TargetRefuses, match="'n' has type string instead of int"):
        build.plan()
    assert build.reader.log.head() == 0
    shutil.rmtree(build.target)
    build.plan()
    build.snapshot()
    build.assert_equal_at(source.head)


def test_a_row_that_is_too_long_for_a_column_is_an_error_for_good_and_fits_after_its_way_out(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = f"delta.`{tmp_path / 'table'}`"
    spark.sql(f"CREATE TABLE {table} (name VARCHAR(5)) USING delta")
    with pytest.raises(Exception) as raised:
        spark.sql(f"INSERT INTO {table} VALUES ('too long')")
    error = coded(raised.value)
    assert isinstance(error, TargetRefuses) and "ALTER COLUMN … TYPE STRING" in str(error)
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN name TYPE STRING")
    spark.sql(f"INSERT INTO {table} VALUES ('too long')")


def test_settings_that_the_queries_of_a_build_depend_on_are_overridden(source: Source, tmp_path: Path) -> None:
    """Groups without their columns, words that SQL reserves, and no dates of 1500 in files."""
    build = Build(source, tmp_path / "target", select=["id", "part", "date'1500-01-01' AS day"])
    build.spark = source.spark.newSession()
    for name, value in {
        "spark.sql.retainGroupColumns": "false",
        "spark.sql.ansi.enforceReservedKeywords": "true",
        "spark.sql.parquet.datetimeRebaseModeInWrite": "EXCEPTION",
    }.items():
        build.spark.conf.set(name, value)
    build.read()
    source.sql("UPDATE $table SET $part = 7 WHERE $id % 7 = 1")
    build.consume_log()
    build.assert_equal_at(source.head)
