"""What a session must have, must not have, and means."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from airflow_backfill.core.errors import RecordInvalid, UnsafeOption
from airflow_backfill.spark.session.settings import SessionSettings, assert_safe, session_confs

pytestmark = pytest.mark.spark


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


def test_what_was_given_wins_and_extensions_are_added_to() -> None:
    shuffle, extensions = "spark.sql.shuffle.partitions", "spark.sql.extensions"
    delta = session_confs(cores=2)[extensions]
    found = session_confs(cores=2, given={shuffle: "64", extensions: "a.B, c.D"})
    assert shuffle not in found and found[extensions] == f"a.B,c.D,{delta}"
    assert session_confs(cores=2, given={extensions: f"{delta},a.B"})[extensions] == f"{delta},a.B"


def test_partitions_follow_the_size_of_the_work() -> None:
    small = session_confs(cores=2)
    large = session_confs(cores=2, table_files=200_000, work_bytes=10 << 30)
    state, shuffle = "spark.databricks.delta.snapshotPartitions", "spark.sql.shuffle.partitions"
    assert (small[state], small[shuffle]) == ("1", "2")
    assert (large[state], large[shuffle]) == ("20", "160")


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


def test_a_setting_that_was_given_and_differs_from_the_plan_is_refused(spark: SparkSession) -> None:
    zone = "spark.sql.session.timeZone"
    stored = SessionSettings.read(spark).to_json() | {zone: "America/New_York"}
    with pytest.raises(UnsafeOption, match=f"{zone} is UTC, and America/New_York in the plan"):
        SessionSettings.from_json(stored).set(spark.newSession())


def test_settings_that_were_not_pinned_are_refused(spark: SparkSession) -> None:
    stored = SessionSettings.read(spark).to_json()
    with pytest.raises(RecordInvalid, match=r"spark\.evil"):
        SessionSettings.from_json(stored | {"spark.evil": "x"})
    stored.pop("spark.sql.ansi.enabled")
    with pytest.raises(RecordInvalid, match="ansi"):
        SessionSettings.from_json(stored)
