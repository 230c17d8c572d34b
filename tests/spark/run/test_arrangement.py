"""The arrangement strategy on real tables: nothing pinned, ranges of keys, every round at the newest epoch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_backfill.core.attempts.attempt import run
from airflow_backfill.core.attempts.goals import SnapshotGoal
from airflow_backfill.core.errors import DuplicateKey, HistoryLost, InvalidSpec, KeyInvalid, KeyNull
from airflow_backfill.core.splits.ranges import AtKey
from airflow_backfill.core.state import effect as fx
from airflow_backfill.core.state.drive import drive
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.phase import Event, Phase
from airflow_backfill.core.values.round_size import RoundSize
from airflow_backfill.spark.run import planner
from airflow_backfill.spark.run.interpreter import Shell
from tests.spark.build import Build, no_rows
from tests.spark.history import Source, create, vacuum

pytestmark = pytest.mark.spark


def arranged(source: Source, tmp_path: Path, **spec: Any) -> Build:
    return Build(source, tmp_path / "target", strategy="arrangement", **spec)


def read(
    build: Build,
    rounds: int,
    between: Callable[[int], None] = lambda n: None,
    within: Callable[[int], None] = lambda n: None,
) -> BuildState:
    """Read the ranges in about so many rounds; ``between`` them, and ``within`` each before its commit, the source
    changes.
    """
    whole = build.reader.state().plan.splits.bytes
    shell = Shell(build.spark, build.target)
    done = 0

    def answer(effect: fx.Effect) -> Any:
        nonlocal done
        if not (isinstance(effect, fx.CommitRecord) and isinstance(effect.work, fx.ReadRanges)):
            return shell.answer(effect)
        done += 1
        within(done)
        reply = shell.answer(effect)
        between(done)
        return reply

    size = RoundSize(bytes=max(1, -(-whole // rounds)), rows=1_000_000)
    return drive(run(SnapshotGoal(0, 1, size), build.attempt()), answer)


def finish(build: Build) -> None:
    """Everything after the ranges, and the proof."""
    assert build.complete().phase is Phase.FINISHED
    build.assert_equal_at(build.source.head)


def assert_equal(build: Build) -> None:
    """Where the ranges stand, all of them."""
    state = build.reader.state()
    assert state.sealed
    build.assert_equal_at(state.reached)


def rounds_of(build: Build) -> list[Any]:
    return [record for record in build.records() if record.event is Event.CHUNKS]


def test_a_source_that_changes_between_rounds_on_both_sides_of_the_position(clustered: Source, tmp_path: Path) -> None:
    source = clustered

    def change(done: int) -> None:
        if done == 1:
            source.sql("UPDATE $table SET $name = 'both sides' WHERE $id % 7 = 1")
            source.sql("DELETE FROM $table WHERE $id % 50 = 1")
            # Moves rows across the position, in both directions.
            source.sql("UPDATE $table SET $id = $id + 5000 WHERE $id BETWEEN 20 AND 25")
            source.sql("UPDATE $table SET $id = -$id WHERE $id BETWEEN 1790 AND 1795")
        elif done == 2:
            # A key that goes and comes again in one round, and new keys: behind, within, beyond every range.
            source.sql("DELETE FROM $table WHERE $id = 40")
            source.append(40, 41, "again")
            source.append(500, 510)
            source.append(9000, 9300)

    build = arranged(source, tmp_path, select=["id", "upper(name) AS name", "n"], where="n % 11 > 0 OR n IS NULL")
    build.plan()
    assert read(build, 4, change).sealed
    rounds = rounds_of(build)
    assert any(isinstance(p, AtKey) and p.chunks for r in rounds for p in r.positions), "no chunk ended within a range"
    assert len(rounds) >= 4 and rounds[0].epochs is None
    finish(build)
    source.append(9500, 9510)
    build.upstream()
    build.assert_equal_at(source.head)


def test_a_clustered_source_is_read_about_once(clustered: Source, tmp_path: Path) -> None:
    build = arranged(clustered, tmp_path)
    plan = build.plan().plan
    assert build.report["notes"][0] == "every byte of the source is read about 1.0 times"
    read(build, 4)
    assert sum(r.work.snapshot_bytes for r in rounds_of(build)) <= 1.3 * plan.splits.bytes
    assert sum(r.work.snapshot_rows for r in rounds_of(build)) == plan.splits.rows == 1040
    assert_equal(build)


@pytest.mark.soak
def test_a_source_that_was_never_clustered_says_what_it_costs_and_is_read_all_the_same(
    spark: SparkSession, source: Source, tmp_path: Path
) -> None:
    path = str(tmp_path / "mixed")
    mixed = Source(spark, path, source.columns)
    create(mixed)
    rows = mixed.rows(1000, 3000).repartition(8, "name")
    rows.write.format("delta").mode("append").save(path)
    build = arranged(mixed, tmp_path)
    build.size = RoundSize(bytes=10_000)
    plan = build.plan().plan
    cost, advice = build.report["notes"]
    often = float(cost.split()[-2])
    assert often > 1.3 and "ZORDER BY (id)" in advice and "strategy='snapshot'" in advice
    rounds = -(-plan.splits.bytes // 10_000)
    read(build, rounds)
    spent = sum(r.work.snapshot_bytes for r in rounds_of(build)) / plan.splits.bytes
    assert 1.3 < spent and abs(spent - often) < 1, (spent, often)
    assert_equal(build)


def test_files_without_statistics_are_read_by_the_planned_borders(spark: SparkSession, tmp_path: Path) -> None:
    source = Source(spark, str(tmp_path / "blind"), ("id", "part", "name", "n"))
    spark.sql(
        f"CREATE TABLE delta.`{source.path}` (id BIGINT, part INT, name STRING, n INT) USING delta TBLPROPERTIES "
        "(delta.enableChangeDataFeed = true, delta.dataSkippingNumIndexedCols = 0)"
    )
    source.append(0, 1000)
    build = arranged(source, tmp_path)
    build.size = RoundSize(bytes=4_000)
    assert len(build.plan().plan.splits) == planner.SPLITS
    read(build, 4)
    assert [r.work.snapshot_rows for r in rounds_of(build)] == [pytest.approx(250, abs=20)] * 4
    assert_equal(build)


@pytest.mark.soak
def test_it_outlives_a_source_that_keeps_nothing_while_snapshot_does_not(clustered: Source, tmp_path: Path) -> None:
    source = clustered
    pinned = Build(source, tmp_path / "pinned", name="pinned")
    pinned.plan()
    build = arranged(source, tmp_path)
    build.plan()

    def vacuumed_and_rewritten(done: int) -> None:
        """Nothing older than the last round is kept; it may have ended before the newest epoch."""
        vacuum(source, build.reader.state().reached)
        if done < 4:
            source.sql(f"UPDATE $table SET $name = 'round {done}' WHERE $id % 4 = {done}")
        if done == 1:
            source.sql("OPTIMIZE $table")

    read(build, 4, vacuumed_and_rewritten)
    with pytest.raises(HistoryLost):
        pinned.snapshot()
    finish(build)


def test_a_round_that_took_longer_than_the_source_keeps_its_history_is_named(clustered: Source, tmp_path: Path) -> None:
    def rewritten_and_vacuumed(done: int) -> None:
        clustered.sql("UPDATE $table SET $name = 'gone' WHERE $id < 2000")
        clustered.sql("UPDATE $table SET $name = 'there' WHERE $id < 2000")
        vacuum(clustered, clustered.head)

    build = arranged(clustered, tmp_path)
    build.plan()
    with pytest.raises(HistoryLost):
        read(build, 4, rewritten_and_vacuumed)
    assert len(rounds_of(build)) == 1


@pytest.mark.parametrize("changes", [False, True])
def test_a_round_whose_files_are_deleted_while_it_reads_them_reads_a_newer_epoch(
    clustered: Source, tmp_path: Path, changes: bool
) -> None:
    """The changes of rows that were read before are kept."""

    def changed(done: int) -> None:
        if changes and done == 1:
            clustered.append(-5, 0)

    def rewritten_and_vacuumed(done: int) -> None:
        if done == 2:
            clustered.sql("OPTIMIZE $table")
            for file in set(clustered.at(planned).inputFiles()) - set(clustered.at(clustered.head).inputFiles()):
                Path(file.removeprefix("file:")).unlink()

    build = arranged(clustered, tmp_path)
    planned = build.plan().plan.source.epoch
    read(build, 4, changed, rewritten_and_vacuumed)
    finish(build)


def test_a_file_that_is_gone_from_the_newest_epoch_is_named(clustered: Source, tmp_path: Path) -> None:
    """Also if there is another epoch by then."""
    build = arranged(clustered, tmp_path)
    build.plan()
    (lost,) = clustered.at(clustered.head).where("id = 1799").selectExpr("_metadata.file_path AS file").collect()
    Path(lost.file.removeprefix("file:")).unlink()
    with pytest.raises(HistoryLost, match=Path(lost.file).name):
        read(build, 4, within=lambda done: clustered.append(3000, 3001))


@pytest.mark.soak
def test_composite_keys_of_texts_with_one_value_that_most_rows_have(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "tenants")
    source = Source(spark, path, ("tenant", "id", "name", "n"))
    names = "element_at(array('big', 'a''b', '', 'Übung', 'z\\n', '\\\\', repeat('long', 60)), cast(t AS int))"
    rows = spark.range(700).selectExpr("id", "if(id % 10 < 7, 1, 1 + id % 7) AS t")
    rows = rows.selectExpr(
        f"{names} AS tenant", "cast(id AS int) AS id", "concat('n', id) AS name", "cast(t AS int) AS n"
    )
    spark.sql(
        f"CREATE TABLE delta.`{path}` (tenant STRING, id INT, name STRING, n INT) USING delta "
        "TBLPROPERTIES (delta.enableChangeDataFeed = true)"
    )
    rows.repartitionByRange(6, "tenant", "id").sortWithinPartitions("tenant", "id").write.format("delta").mode(
        "append"
    ).save(path)
    build = arranged(source, tmp_path, key=["tenant", "id"])
    build.plan()

    def change(done: int) -> None:
        if done in (1, 2):
            spark.sql(f"UPDATE delta.`{path}` SET name = 'round {done}' WHERE id % 3 = {done}")
            spark.sql(f"DELETE FROM delta.`{path}` WHERE tenant = 'big' AND id % 20 = {done}")
            spark.sql(f"INSERT INTO delta.`{path}` VALUES ('big', {10_000 + done}, 'new', 1), ('zz', {done}, 'new', 2)")

    read(build, 5, change)
    ends = {p.key for r in rounds_of(build) for p in r.positions if isinstance(p, AtKey) and p.chunks}
    borders = build.reader.state().plan.splits.borders
    assert any(len(key) == 2 for key in (*ends, *borders)), "the many rows of one value were never parted"
    finish(build)


@pytest.mark.soak
def test_rows_without_a_key_and_keys_with_two_rows_stop_it(spark: SparkSession, tmp_path: Path) -> None:
    source = no_rows(spark, str(tmp_path / "loose"), ("id", "part", "name", "n"))
    for start in range(0, 800, 200):
        source.append(start, start + 200)
    build = arranged(source, tmp_path)
    build.plan()
    source.sql("INSERT INTO $table VALUES (NULL, 1, 'before the first round', 1)")
    with pytest.raises(KeyNull):
        read(build, 4)
    assert not rounds_of(build)
    source.sql("DELETE FROM $table WHERE $id IS NULL")

    def spoil(done: int) -> None:
        if done == 1:
            source.sql("INSERT INTO $table VALUES (NULL, 1, 'nobody', 1)")

    with pytest.raises(KeyNull):
        read(build, 4, spoil)
    assert len(rounds_of(build)) == 1
    source.sql("DELETE FROM $table WHERE $id IS NULL")
    source.append(700, 701, "twice")
    with pytest.raises((KeyNull, DuplicateKey)):
        read(build, 4)


def test_bad_input_is_refused_before_the_target_is_made(spark: SparkSession, source: Source, tmp_path: Path) -> None:
    build = arranged(source, tmp_path)
    build.lanes = 2
    with pytest.raises(InvalidSpec, match="one lane"):
        build.plan()
    path = str(tmp_path / "binary")
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id BINARY, name STRING) USING delta "
        "TBLPROPERTIES (delta.enableChangeDataFeed = true)"
    )
    binary = arranged(Source(spark, path, ("id", "part", "name", "n")), tmp_path)
    with pytest.raises(KeyInvalid, match="no order"):
        binary.plan()
    assert not Path(build.target).exists()


def test_a_source_without_rows_is_complete_at_once(spark: SparkSession, tmp_path: Path) -> None:
    source = no_rows(spark, str(tmp_path / "empty"), ("id", "part", "name", "n"))
    build = arranged(source, tmp_path)
    build.plan()
    assert read(build, 1).sealed
    finish(build)
    source.append(0, 10)
    build.upstream()
    build.assert_equal_at(source.head)
