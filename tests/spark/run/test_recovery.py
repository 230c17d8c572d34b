"""A target whose log was cleaned up under its build, or that somebody wrote to, on real tables."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_backfill.core.attempts.attempt import run
from airflow_backfill.core.attempts.goals import RepairGoal, SnapshotGoal, UpstreamGoal
from airflow_backfill.core.errors import (
    HistoryLost,
    NotAllowedNow,
    NotPlanned,
    TargetDiverged,
    TargetExists,
    VerificationFailed,
)
from airflow_backfill.core.state import effect as fx
from airflow_backfill.core.values.phase import Phase
from airflow_backfill.core.values.round_size import RoundSize
from airflow_backfill.ledger import enclosures
from airflow_backfill.spark.delta_internals import forget
from airflow_backfill.spark.run.application import reach
from airflow_backfill.spark.run.interpreter import Shell
from airflow_backfill.spark.run.planner import OnExisting
from tests.spark.build import Build, about_to
from tests.spark.history import Source, clean_up_log
from tests.spark.kept import Kept

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module", autouse=True)
def large_records() -> Iterator[None]:
    """Records are too large for their commits."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(enclosures, "MAX_RECORD_BYTES", 300)
        yield


@pytest.fixture(scope="module")
def kept(made: Source, tmp_path_factory: pytest.TempPathFactory) -> Kept[Build]:
    return Kept(made, tmp_path_factory.mktemp("kept"), at_the_head)


def at_the_head(source: Source, target: Path) -> Build:
    build = Build(source, target, select=["id", "upper(name) AS name"])
    build.read()
    source.sql("UPDATE $table SET $name = 'changed' WHERE $id % 3 = 0")
    source.sql("DELETE FROM $table WHERE $id % 5 = 0")
    build.consume_log()
    return build


@pytest.fixture
def build(kept: Kept[Build]) -> Build:
    """A build that stands at the source's head."""
    return kept.restored()


@pytest.mark.soak
def test_a_log_that_lost_its_records(build: Build) -> None:
    epoch = build.source.head
    assert len(list(Path(build.target + ".backfill", "records").iterdir())) > 4
    clean_up_log(build.spark, build.target)
    with pytest.raises(HistoryLost):
        build.reader.state()
    state = build.recover(epoch)
    assert (state.phase, state.applied, state.handoff) == (Phase.CATCH_UP, epoch, epoch)
    assert build.verify().certificate is not None
    assert build.finish().phase is Phase.FINISHED
    build.source.append(9000, 9010)
    build.upstream()
    build.assert_equal_at(build.source.head)


@pytest.mark.soak
def test_a_wrong_epoch_is_not_proven(build: Build) -> None:
    clean_up_log(build.spark, build.target)
    build.recover(build.source.head - 1)
    with pytest.raises(VerificationFailed):
        build.verify()
    with pytest.raises(VerificationFailed):
        build.finish()
    build.recover(build.source.head)
    build.verify()
    assert build.finish().phase is Phase.FINISHED


@pytest.mark.soak
def test_a_target_that_somebody_wrote_to_and_put_right_again(build: Build) -> None:
    epoch, table = build.source.head, f"delta.`{build.target}`"
    before = build.reader.log.head()
    build.spark.sql(f"DELETE FROM {table} WHERE id < 10")
    with pytest.raises(TargetDiverged):
        build.reader.state()
    build.recover(epoch)
    with pytest.raises(VerificationFailed) as failed:
        build.verify()
    assert failed.value.data["counts"].keys() == {"missing"}
    with pytest.raises(VerificationFailed):
        build.finish()
    build.spark.sql(f"RESTORE TABLE {table} TO VERSION AS OF {before}")
    build.recover(epoch)
    assert build.verify().certificate is not None
    assert build.finish().phase is Phase.FINISHED


FOREIGN = (
    "DELETE FROM $t WHERE id < 10",
    "TRUNCATE TABLE $t",
    "CREATE OR REPLACE TABLE $t USING delta TBLPROPERTIES ('airflow_backfill.name' = 'build') AS SELECT 1 AS id",
    "CREATE OR REPLACE TABLE $t USING delta AS SELECT 1 AS id",
    "RESTORE TABLE $t TO VERSION AS OF 3",
    "ALTER TABLE $t SET TBLPROPERTIES (delta.columnMapping.mode = 'name'); ALTER TABLE $t RENAME COLUMN name TO nom",
)


@pytest.mark.soak
@pytest.mark.parametrize("strategy", ["snapshot", "arrangement", "chain"])
def test_the_way_out_that_an_error_names_leads_out_of_it_again_and_again(
    source: Source, tmp_path: Path, strategy: str
) -> None:
    """In the middle of the snapshot, where only a restart helped once, and after the hand-off."""
    build = Build(source, tmp_path / "target", strategy=strategy)
    build.size = RoundSize(rows=5)
    build.plan()
    for number, statement in enumerate(FOREIGN):
        build.first_rounds(number + 1)
        rows = sorted(map(repr, build.rows().collect()))
        _lead_out(build, statement, build.snapshot)
        assert rows and sorted(map(repr, build.rows().collect())) == rows
    build.hand_off()
    for number, statement in enumerate(FOREIGN):
        source.append(9000 + number, 9001 + number)
        _lead_out(build, statement, build.upstream)
        build.upstream()
        build.assert_equal_at(source.head)


def _lead_out(build: Build, statement: str, work: Callable[[], object]) -> None:
    """Do what the error says that ends the work."""
    for one in statement.split(";"):
        build.spark.sql(one.replace("$t", f"delta.`{build.target}`"))
    with pytest.raises(TargetDiverged) as raised:
        work()
    build.led_back(raised.value)


def test_repair_rewrites_the_keys_that_differ_and_no_others(build: Build) -> None:
    """Rows that are missing, too many, stale, there twice, and without a key."""
    epoch, table = build.source.head, f"delta.`{build.target}`"
    build.spark.sql(f"DELETE FROM {table} WHERE id < 10")
    build.spark.sql(f"UPDATE {table} SET name = 'spoilt' WHERE id BETWEEN 11 AND 13")
    build.spark.sql(f"INSERT INTO {table} SELECT * FROM {table} WHERE id BETWEEN 13 AND 17")
    build.spark.sql(f"INSERT INTO {table} VALUES (77777, 'nobody'), (NULL, 'nameless'), (NULL, 'nameless')")
    build.recover(epoch)
    with pytest.raises(VerificationFailed) as failed:
        build.verify()
    counts = failed.value.data["counts"]
    before = build.rows().count()
    build.run(RepairGoal())
    build.assert_equal_at(epoch)
    (metrics,) = build.spark.sql(f"DESCRIBE HISTORY {table} LIMIT 1").select("operationMetrics").first()
    assert int(metrics["numTargetRowsDeleted"]) - int(metrics["numTargetRowsInserted"]) == before - build.rows().count()
    assert int(metrics["numTargetRowsInserted"]) <= sum(counts.values()), "rows were rewritten that did not differ"
    assert int(metrics["numTargetRowsUpdated"]) == 0
    head = build.reader.log.head()
    build.run(RepairGoal())
    assert build.reader.log.head() == head, "a retry of a repair that is done wrote again"
    assert build.verify().certificate is not None
    assert build.finish().phase is Phase.FINISHED
    build.source.append(9000, 9010)
    build.upstream()
    build.assert_equal_at(build.source.head)


def test_nothing_is_repaired_before_the_hand_off_epoch_is_reached(build: Build) -> None:
    with pytest.raises(NotAllowedNow):
        build.run(RepairGoal())


def test_a_target_without_a_difference_is_repaired_by_an_empty_commit(build: Build) -> None:
    epoch = build.source.head
    build.catch_up()
    build.run(RepairGoal())
    build.assert_equal_at(epoch)
    assert build.verify().certificate is not None


@pytest.mark.soak
@pytest.mark.parametrize("commits", [0, 12])
def test_another_table_is_created_in_the_place_of_a_dropped_target_in_the_middle_of_a_round(
    spark: SparkSession, source: Source, tmp_path: Path, commits: int
) -> None:
    """It is of another writer: no error says to restore it or to name it like the build, and nothing drops it."""
    build = Build(source, tmp_path / "target")
    build.size = RoundSize(rows=20)
    build.plan()
    build.first_rounds(3)
    table = f"delta.`{build.target}`"

    class Replacing(Shell):
        replaced = False

        def answer(self, effect: fx.Effect[Any]) -> Any:
            if isinstance(effect, fx.CommitRecord) and isinstance(effect.work, fx.AppendFiles) and not self.replaced:
                self.replaced = True
                shutil.rmtree(build.target)
                forget(spark, build.target)
                spark.sql(f"CREATE TABLE {table} (id BIGINT) USING delta")
                for number in range(commits):
                    spark.sql(f"INSERT INTO {table} VALUES ({number})")
            return super().answer(effect)

    with pytest.raises(NotPlanned, match="move that table away"):
        reach(SnapshotGoal(0, 1, build.size), Replacing(spark, build.target), build.attempt(), None)
    with pytest.raises(NotPlanned, match="move that table away"):
        build.snapshot()
    for on_existing in OnExisting:
        with pytest.raises(TargetExists, match="move this table away"):
            build.plan(on_existing)
    assert spark.sql(f"SELECT * FROM {table}").count() == commits
    shutil.move(build.target, tmp_path / "away")
    build.hand_off()
    build.assert_equal_at(source.head)


@pytest.mark.soak
def test_an_older_copy_of_the_target_is_put_in_its_place_in_the_middle_of_a_round(
    spark: SparkSession, source: Source, tmp_path: Path
) -> None:
    """The round lands on the older copy. No later one goes on from it: the epochs in between are missing there."""
    build = Build(source, tmp_path / "target")
    build.hand_off()
    backup = shutil.copytree(build.target, tmp_path / "backup")
    source.append(5000, 5010)
    build.upstream()
    source.append(6000, 6010)
    shell, goal = Shell(spark, build.target), UpstreamGoal(build.size, upto=source.head)
    attempt = run(goal, build.attempt())
    effect: Any = about_to(attempt, shell, lambda write: isinstance(write.work, fx.ApplyEpochs))
    shutil.rmtree(build.target)
    shutil.copytree(backup, build.target)
    answer = shell.answer(effect)
    with pytest.raises(TargetDiverged, match="somebody put an older copy"):
        while True:
            answer = shell.answer(attempt.send(answer))
    with pytest.raises(TargetDiverged, match="somebody put an older copy") as raised:
        build.upstream()
    build.led_back(raised.value)
    build.upstream()
    build.assert_equal_at(source.head)
