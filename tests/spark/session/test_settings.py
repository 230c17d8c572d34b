"""What a session must have, must not have, and means."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from delta.tables import DeltaTable
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from airflow_backfill.core.errors import RecordInvalid, UnsafeOption
from airflow_backfill.spark.session.settings import (
    SessionSettings,
    assert_safe,
    override,
    session_confs,
    size_session,
    sizes,
)
from tests.spark.run.lottery import given

pytestmark = pytest.mark.spark

STATE, SHUFFLE = "spark.databricks.delta.snapshotPartitions", "spark.sql.shuffle.partitions"


@pytest.mark.parametrize(
    "option",
    [
        "spark.sql.files.ignoreMissingFiles",
        "spark.sql.files.ignoreCorruptFiles",
        "spark.databricks.delta.changeDataFeed.timestampOutOfRange.enabled",
    ],
)
def test_options_that_read_something_missing_as_empty(spark: SparkSession, option: str) -> None:
    session = spark.newSession()
    assert_safe(session)
    session.conf.set(option, "TRUE")
    with pytest.raises(UnsafeOption, match=option):
        assert_safe(session)


@pytest.mark.parametrize("name", ["autoCompact", "optimizeWrite", "schema.autoMerge"])
def test_options_that_commit_what_no_round_said(spark: SparkSession, name: str) -> None:
    session = spark.newSession()
    session.conf.set(f"spark.databricks.delta.{name}.enabled", "true")
    with pytest.raises(UnsafeOption, match=rf"{name}\.enabled is true: .* leave it out or set it to false"):
        assert_safe(session)


def test_times_that_would_lose_their_microseconds(spark: SparkSession) -> None:
    session, option = spark.newSession(), "spark.sql.parquet.outputTimestampType"
    for kept in ("INT96", "timestamp_micros"):
        session.conf.set(option, kept)
        assert_safe(session)
    session.conf.set(option, "timestamp_millis")
    with pytest.raises(UnsafeOption, match="without their microseconds; leave it out or set it to TIMESTAMP_MICROS"):
        assert_safe(session)


def test_what_was_given_wins_and_extensions_are_added_to() -> None:
    mode, extensions = "spark.scheduler.mode", "spark.sql.extensions"
    delta = session_confs()[extensions]
    found = session_confs({mode: "FIFO", extensions: "a.B, c.D"})
    assert mode not in found and found[extensions] == f"a.B,c.D,{delta}"
    assert session_confs({extensions: f"{delta},a.B"})[extensions] == f"{delta},a.B"


def test_tables_are_found_by_location_whatever_catalog_is_the_default() -> None:
    given = {
        "spark.sql.defaultCatalog": "lake",
        "spark.sql.catalog.spark_catalog": "org.example.Sessions",
        "spark.sql.catalog.lake": "org.example.Lake",
    }
    found = given | session_confs(given)
    assert found["spark.sql.defaultCatalog"] == "spark_catalog"
    assert found["spark.sql.catalog.spark_catalog"] == "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    assert found["spark.sql.catalog.lake"] == "org.example.Lake"


def test_what_was_given_does_not_win_where_queries_depend_on_it(spark: SparkSession) -> None:
    name = "spark.sql.retainGroupColumns"
    assert session_confs({name: "false"})[name] == "true"
    session = spark.newSession()
    session.conf.set(name, "false")
    override(session)
    assert session.conf.get(name) == "true"


def test_no_write_is_skipped_for_a_transaction_id_of_the_application(spark: SparkSession, tmp_path: Path) -> None:
    path, prefix = str(tmp_path / "table"), "spark.databricks.delta.write"
    with given(spark, {f"{prefix}.txnAppId": "site", f"{prefix}.txnVersion": "1"}) as session:
        override(session)
        for _ in range(2):
            session.range(1).write.format("delta").mode("append").save(path)
    assert spark.read.format("delta").load(path).count() == 2


def test_columns_are_read_as_the_target_stores_them(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    spark.sql(f"CREATE TABLE delta.`{path}` (c CHAR(3), v VARIANT) USING delta")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES ('a', parse_json('1'))")
    session = spark.newSession()
    for name in ("spark.sql.preserveCharVarcharTypeInfo", "spark.sql.parquet.binaryAsString"):
        session.conf.set(name, "true")
    override(session)
    rows = session.read.format("delta").load(path).selectExpr("c", "cast(v AS int) AS v")
    assert rows.dtypes == [("c", "string"), ("v", "int")]
    assert [tuple(row) for row in rows.collect()] == [("a  ", 1)]


def test_rows_are_found_in_whatever_time_zone_their_partition_was_derived(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    writer, session = spark.newSession(), spark.newSession()
    writer.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
    table = DeltaTable.create(writer).location(path).addColumn("ts", "TIMESTAMP")
    table.addColumn("day", "DATE", generatedAlwaysAs="CAST(ts AS DATE)").partitionedBy("day").execute()
    writer.sql(f"INSERT INTO delta.`{path}` (ts) VALUES (TIMESTAMP'2020-01-02 03:00:00Z')")
    session.conf.set("spark.databricks.delta.generatedColumn.partitionFilterOptimization.enabled", "true")
    override(session)
    rows = session.read.format("delta").load(path)
    assert rows.where("ts >= TIMESTAMP'2020-01-02 00:00:00Z'").count() == 1


def test_partitions_follow_the_size_of_the_work() -> None:
    small = sizes(cores=2)
    large = sizes(cores=2, table_files=200_000, work_bytes=10 << 30)
    assert (small[STATE], small[SHUFFLE]) == ("1", "2")
    assert (large[STATE], large[SHUFFLE]) == ("20", "160")
    assert sizes(cores=1000)[SHUFFLE] == "1000"


class Given:
    """As much of a session as its sizes need, with what an application was given."""

    def __init__(self, cores: int, **given: str) -> None:
        values = {name.replace("_", "."): value for name, value in given.items()}
        self.set = dict[str, str]()
        conf = SimpleNamespace(get=lambda name, default=None: values.get(name, default))
        self.sparkContext = SimpleNamespace(_conf=conf, defaultParallelism=cores)
        self.conf = SimpleNamespace(get=self.set.get, set=self.set.__setitem__)


def test_a_session_has_the_size_of_its_work_on_the_cores_of_the_cluster(caplog: Any) -> None:
    caplog.set_level("INFO")
    cluster: Any = Given(40)
    size_session(cluster)
    assert cluster.set == {STATE: "1", SHUFFLE: "40"}
    size_session(cluster, table_files=50_000, work_bytes=100 << 30)
    assert cluster.set == {STATE: "5", SHUFFLE: "1600"}
    given: Any = Given(2, spark_sql_shuffle_partitions="64")
    size_session(given)
    assert given.set == {STATE: "1"}
    assert "spark.sql.shuffle.partitions stays 64, as given; by size it would be 2" in caplog.text
    growing: Any = Given(2, spark_dynamicAllocation_maxExecutors="50", spark_executor_cores="4")
    size_session(growing)
    assert growing.set[SHUFFLE] == "200"


def test_a_later_session_means_what_the_plan_meant(spark: SparkSession) -> None:
    planned = spark.newSession()
    planned.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    planned.conf.set("spark.sql.ansi.enabled", "false")
    stored = SessionSettings.read(planned).to_json()
    later = spark.newSession()
    SessionSettings.from_json(stored).set(later)
    assert later.conf.get("spark.sql.timestampType") == "TIMESTAMP_NTZ"
    assert later.conf.get("spark.sql.ansi.enabled") == "false"
    assert SessionSettings.read(later) == SessionSettings.read(planned)


@pytest.mark.parametrize(
    ("name", "value", "expression"),
    [
        ("chunkBase64String.enabled", "false", "base64(cast(repeat('x', 80) AS BINARY))"),
        ("icu.caseMappings.enabled", "false", "initcap('\ufb01nd')"),
        ("json.enablePartialResults", "false", """from_json('{"a": 1, "b": {"c": "x"}}', 'a INT, b STRUCT<c: INT>')"""),
        ("legacy.allowHashOnMapType", "true", "hash(map(1, 2))"),
        ("legacy.collationAwareHashFunctions", "true", "hash('a' COLLATE UTF8_LCASE)"),
        ("legacy.consecutiveStringLiterals.enabled", "true", "'I''m'"),
        ("legacy.createEmptyCollectionUsingStringType", "true", "array_append(array(), 1)"),
        ("legacy.csv.enableDateTimeParsingFallback", "false", "from_csv('2020-1-1', 'd DATE')"),
        ("legacy.disableMapKeyNormalization", "true", "map_keys(map(-0.0D, 1))"),
        ("legacy.exponentLiteralAsDecimal.enabled", "true", "1e2"),
        ("legacy.fromDayTimeString.enabled", "true", "string(INTERVAL '10:11:12' MINUTE TO SECOND)"),
        ("legacy.interval.enabled", "true", "cast(date'2020-01-02' - date'2020-01-01' AS STRING)"),
        ("legacy.json.enableDateTimeParsingFallback", "false", """year(from_json('{"d": "20200101"}', 'd DATE').d)"""),
        ("legacy.lpadRpadAlwaysReturnString", "true", "hex(lpad(X'01', 2))"),
        ("legacy.nullValueWrittenAsQuotedEmptyStringCsv", "true", "to_csv(named_struct('a', NULL, 'b', 1))"),
        ("legacy.truncateForEmptyRegexSplit", "true", "split('abc', '', 2)"),
        ("variant.allowDuplicateKeys", "true", """try_parse_json('{"a": 1, "a": 2}') IS NULL"""),
        ("variant.validateUnicodeInJsonParsing", "false", r"""try_parse_json('{"a": "\\ud800"}') IS NULL"""),
    ],
)
def test_functions_say_what_they_said_when_the_build_was_planned(
    spark: SparkSession, name: str, value: str, expression: str
) -> None:
    def said(session: SparkSession) -> str:
        try:
            return repr(session.range(1).selectExpr(expression).first())
        except AnalysisException as error:
            return str(error)

    planned, later = spark.newSession(), spark.newSession()
    planned.conf.set(f"spark.sql.{name}", value)
    assert said(later) != said(planned)
    SessionSettings.from_json(SessionSettings.read(planned).to_json()).set(later)
    assert said(later) == said(planned)


def test_whether_spark_is_ansi_may_be_said_by_its_environment() -> None:
    """``spark.conf`` of a Spark with ``SPARK_ANSI_SQL_MODE=false``: nobody has set it, and it is off."""
    conf: Any = SimpleNamespace(get=lambda name, *default: default[0] if default else "false")
    session: Any = SimpleNamespace(conf=conf)
    assert SessionSettings.read(session).values["spark.sql.ansi.enabled"] == "false"


def test_a_setting_without_a_default_is_refused_if_it_was_not_given_to_the_plan(spark: SparkSession) -> None:
    name = "spark.sql.legacy.json.enableDateTimeParsingFallback"
    planned = SessionSettings.read(spark.newSession())
    with given(spark, {name: "true"}) as later:
        with pytest.raises(
            UnsafeOption, match=f"{name} is true, and not set in the plan: .* leave the setting out, or"
        ):
            planned.set(later)
        SessionSettings.read(later).set(later)


def test_a_setting_that_was_given_and_differs_from_the_plan_is_refused(spark: SparkSession) -> None:
    zone = "spark.sql.session.timeZone"
    stored = SessionSettings.read(spark).to_json() | {zone: "America/New_York"}
    with pytest.raises(UnsafeOption, match=f"{zone} is UTC, and America/New_York in the plan"):
        SessionSettings.from_json(stored).set(spark.newSession())


def test_settings_that_this_version_does_not_pin_are_refused(spark: SparkSession) -> None:
    stored = SessionSettings.read(spark).to_json()
    with pytest.raises(RecordInvalid, match=r"spark\.evil"):
        SessionSettings.from_json(stored | {"spark.evil": "x"})


def test_a_setting_that_an_older_plan_does_not_pin_stays_as_it_is(spark: SparkSession) -> None:
    stored = SessionSettings.read(spark).to_json()
    stored.pop("spark.sql.ansi.enabled")
    later = spark.newSession()
    later.conf.set("spark.sql.ansi.enabled", "false")
    SessionSettings.from_json(stored).set(later)
    assert later.conf.get("spark.sql.ansi.enabled") == "false"
