"""A source whose history is not the one that the build knows: put back from a backup, made again, or with a hole."""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_backfill.core.attempts.attempt import run
from airflow_backfill.core.attempts.goals import ConsumeLogGoal, SnapshotGoal
from airflow_backfill.core.errors import HistoryLost, SourceReplaced
from airflow_backfill.core.state import effect as fx
from airflow_backfill.core.values.round_size import RoundSize
from airflow_backfill.ledger.log_listing import commit_name
from airflow_backfill.spark.run.interpreter import Shell
from tests.spark.build import NONE, PATIENCE, Build, about_to
from tests.spark.history import Source

pytestmark = pytest.mark.spark


def forget(spark: SparkSession) -> None:
    """As an application does that starts anew."""
    spark.sparkContext._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


@pytest.mark.soak
def test_a_source_that_is_put_back_from_a_backup_is_not_followed_and_can_be_kept(
    spark: SparkSession, source: Source, tmp_path: Path
) -> None:
    build = Build(source, tmp_path / "target")
    build.read()
    build.consume_log()
    shutil.copytree(source.path, tmp_path / "backup")
    source.append(5000, 5040)
    source.sql("DELETE FROM $table WHERE $id % 9 = 1")
    applied = build.consume_log().applied
    assert applied == source.head

    shutil.rmtree(source.path)
    shutil.move(str(tmp_path / "backup"), source.path)
    forget(spark)
    for start in (6000, 7000, 8000):
        source.append(start, start + 30)
    assert source.head == applied + 1
    commits = build.reader.log.head()
    for _ in range(2):
        with pytest.raises(SourceReplaced, match=f"epoch {applied} .*recover .*--epoch {applied}"):
            build.consume_log()
    assert build.reader.log.head() == commits

    build.repair(applied)
    build.assert_equal_at(applied)
    build.upstream()
    build.assert_equal_at(source.head)


@pytest.mark.soak
@pytest.mark.parametrize("spec", [{}, {"key": None, "strategy": "chain"}], ids=["with a key", "without"])
def test_a_target_is_restored_to_before_the_backup_of_its_source(
    spark: SparkSession, source: Source, tmp_path: Path, spec: dict[str, Any]
) -> None:
    """Nothing is repaired, and nothing but the epochs since is read again."""
    build = Build(source, tmp_path / "target", **spec)
    build.hand_off()
    source.append(4000, 4040)
    build.upstream()
    good = build.reader.log.head()
    shutil.copytree(source.path, tmp_path / "backup")
    source.append(5000, 5040)
    build.upstream()
    shutil.rmtree(source.path)
    shutil.move(str(tmp_path / "backup"), source.path)
    forget(spark)
    source.append(6000, 6030)
    with pytest.raises(SourceReplaced):
        build.upstream()
    spark.sql(f"RESTORE TABLE delta.`{build.target}` TO VERSION AS OF {good}")
    build.recover()
    build.upstream()
    build.assert_equal_at(source.head)


def test_a_round_takes_no_rows_of_a_history_that_is_there_for_a_moment(
    spark: SparkSession, source: Source, tmp_path: Path
) -> None:
    """Between two looks at the source somebody puts a backup in its place, writes to it, and undoes that."""
    build, shell = Build(source, tmp_path / "target"), Shell(spark, str(tmp_path / "target"))
    build.read()
    other = replace(source, path=str(shutil.copytree(source.path, tmp_path / "other")))
    source.append(5000, 5010)
    other.append(6000, 6010)
    attempt = run(ConsumeLogGoal(build.size, NONE, PATIENCE), build.attempt())
    effect: Any = about_to(attempt, shell, lambda write: isinstance(write.work, fx.ApplyEpochs))
    exchange(source, other)
    answer = shell.answer(effect)
    exchange(source, other)
    with suppress(StopIteration):
        while True:
            answer = shell.answer(attempt.send(answer))
    build.assert_equal_at(source.head)


def exchange(one: Source, other: Source) -> None:
    away = f"{one.path} for a moment"
    for before, after in ((one.path, away), (other.path, one.path), (away, other.path)):
        Path(before).rename(after)


def test_a_source_that_is_dropped_and_made_again_is_named_on_a_retry_of_the_snapshot(
    spark: SparkSession, source: Source, tmp_path: Path
) -> None:
    build = Build(source, tmp_path / "target")
    build.size = RoundSize(rows=100)
    for start in (5000, 6000):
        source.append(start, start + 10)
    assert build.plan().plan.source.epoch > 1
    shutil.rmtree(source.path)
    forget(spark)
    source.rows(0, 50).write.format("delta").option("delta.enableChangeDataFeed", "true").save(source.path)
    for _ in range(2):
        with pytest.raises(SourceReplaced):
            build.run(SnapshotGoal(0, 1, build.size))


def test_a_commit_that_is_missing_before_what_is_applied_next_is_named(
    spark: SparkSession, source: Source, tmp_path: Path
) -> None:
    """The log goes on behind it, but no state of the table can be made any more."""
    build = Build(source, tmp_path / "target")
    build.read()
    source.append(5000, 5010)
    applied = build.consume_log().applied
    assert applied is not None
    source.append(6000, 6010)
    for name in Path(source.path, "_delta_log").glob("*.checkpoint.*"):
        name.unlink()
    Path(source.path, "_delta_log", commit_name(applied - 1)).unlink()
    forget(spark)
    with pytest.raises(HistoryLost, match=str(applied - 1)):
        build.consume_log()
    with pytest.raises(HistoryLost, match=str(applied - 1)):
        build.catch_up()
