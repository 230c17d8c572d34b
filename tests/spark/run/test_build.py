"""Whole builds on real tables, task by task: what each phase leaves in the target and in its log."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_backfill.core.attempts.goals import CancelGoal, SnapshotGoal
from airflow_backfill.core.attempts.proving import prove
from airflow_backfill.core.errors import HistoryLost, NotAllowedNow, TargetDiverged, VerificationFailed
from airflow_backfill.core.splits.position import InEpoch
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.core.values.phase import Event, Phase
from airflow_backfill.core.values.round_size import RoundSize
from airflow_backfill.core.values.row_hash import RowHash
from airflow_backfill.spark.open_source import open_source
from airflow_backfill.spark.run import planner
from airflow_backfill.spark.run.interpreter import Shell
from airflow_backfill.spark.run.planner import OnExisting
from airflow_backfill.spark.session.removal import drop_target
from airflow_backfill.spark.strategies import snapshot
from tests.spark.build import Build, no_rows
from tests.spark.history import PLAIN, Source, clean_up_log, copied, live_again, vacuum

pytestmark = pytest.mark.spark

SELECT = ["upper(name) AS label", "id", "n + 1 AS more"]
WHERE = "part <> 2"


def change(source: Source, new: int = 5000) -> None:
    """Two epochs with every kind of change, one that moves rows over the filter's edge, and one of maintenance."""
    source.sql("UPDATE $table SET $name = concat($name, '+'), $part = ($part + 1) % 3 WHERE $id % 7 = 1")
    source.sql("DELETE FROM $table WHERE $id % 11 = 3")
    source.append(new, new + 20)
    source.sql("OPTIMIZE $table")


def test_a_table_is_built_while_it_changes_and_followed_afterwards(source: Source, tmp_path: Path) -> None:
    build = Build(source, tmp_path / "target", select=SELECT, where=WHERE)
    build.size = RoundSize(rows=100)
    planned = build.plan()
    pinned = planned.plan.source.epoch
    assert not build.report["rehearsal"]["measured"], "it takes seconds only"
    change(source)
    copy = Path(f"{build.target}.backfill", "plans", f"{planned.plan.build}.json")
    copy.unlink()
    state = build.snapshot()
    assert copy.exists(), "after a month the log does not have the plan any more"
    assert state.sealed and len([r for r in build.records() if r.event is Event.FILES]) > 1
    build.assert_equal_at(pinned)

    change(source, new=6000)
    state = build.consume_log()
    assert state.applied == source.head
    build.assert_equal_at(source.head)

    source.sql("UPDATE $table SET $n = 77 WHERE $id < 50")
    state = build.catch_up()
    handoff = state.handoff
    assert handoff == source.head == state.applied
    source.sql("UPDATE $table SET $n = 78 WHERE $id < 40")
    assert build.catch_up().handoff == handoff
    build.assert_equal_at(handoff)

    certificate = build.verify().certificate
    assert certificate is not None and certificate.epoch == handoff
    assert certificate.rows == build.rows().count()
    assert build.finish().phase is Phase.FINISHED

    change(source, new=7000)
    state = build.upstream()
    assert (state.phase, state.applied) == (Phase.UPSTREAM, source.head)
    build.assert_equal_at(source.head)
    again = Shell(build.spark, build.target).run(prove(None, RowHash.SHA256))
    assert (again.epoch, again.rows) == (source.head, build.rows().count()) and build.reader.state() == state
    epochs = [e for r in build.records() if r.epochs for e in range(r.epochs.start, r.epochs.stop)]
    assert epochs == list(range(pinned + 1, source.head + 1))


@pytest.mark.soak
def test_a_history_of_everything_is_followed_round_by_round(history: Callable[[str], Source], tmp_path: Path) -> None:
    past = history("vectors")
    source = copied(past, tmp_path / "source", through=1)
    build = Build(source, tmp_path / "target", select=SELECT, where=WHERE)
    build.size = RoundSize(rows=250)
    build.read()
    live_again(source, past)
    state = build.consume_log()
    assert state.applied == source.head
    build.assert_equal_at(source.head)
    assert any(isinstance(r.positions[0], InEpoch) for r in build.records()), "no epoch was split by key"
    assert any(r.epochs is not None and len(r.epochs) > 1 for r in build.records()), "no epochs were taken together"


def test_lanes_read_the_snapshot_side_by_side(source: Source, tmp_path: Path) -> None:
    build = Build(source, tmp_path / "target", lanes=2)
    build.size = RoundSize(rows=1)
    build.plan()
    first = build.run(SnapshotGoal(0, 2, build.size))
    assert not first.sealed
    second = build.run(SnapshotGoal(1, 2, build.size))
    assert second.sealed
    build.consume_log()
    build.assert_equal_at(source.head)
    files = [r for r in build.records() if r.event is Event.FILES]
    assert sum(r.work.snapshot_files for r in files) == second.plan.splits.files
    assert {r.lane for r in files} == {0, 1}


def test_a_file_of_the_pinned_version_that_is_gone_is_named(source: Source, tmp_path: Path) -> None:
    build = Build(source, tmp_path / "target")
    build.plan()
    gone = max(Path(source.path).glob("*.parquet"), key=lambda file: file.stat().st_size)
    gone.unlink()
    with pytest.raises(HistoryLost, match=gone.name):
        build.snapshot()
    assert build.rows().count() == 0
    assert [r.event for r in build.records()] == [Event.CLAIM]


@pytest.mark.soak
@pytest.mark.parametrize("gone", ["files", "commits"])
def test_a_hand_off_epoch_that_the_source_keeps_no_more_is_replaced_by_a_newer_one(
    source: Source, tmp_path: Path, gone: str
) -> None:
    """A verification that took longer than the source keeps its history: nothing is built anew for that."""
    build = Build(source, tmp_path / "target", select=SELECT, where=WHERE)
    build.read()
    build.apply_log()
    source.sql("UPDATE $table SET $n = 78 WHERE $id < 40")
    source.sql("OPTIMIZE $table")
    source.append(7000, 7010)
    if gone == "files":
        vacuum(source, source.head)
    else:
        clean_up_log(source.spark, source.path)
    with pytest.raises(HistoryLost, match=r"recover .* --epoch N" if gone == "files" else "commit was deleted"):
        build.verify()
    epoch = source.head
    assert build.repair(epoch).handoff == epoch
    build.assert_equal_at(epoch)


@pytest.mark.soak
def test_without_a_key_a_build_goes_on_to_an_epoch_that_there_still_is(source: Source, tmp_path: Path) -> None:
    build = Build(source, tmp_path / "target", key=None, strategy="chain")
    build.read()
    build.apply_log()
    source.sql("OPTIMIZE $table")
    source.append(7000, 7010)
    vacuum(source, source.head - 1)
    with pytest.raises(HistoryLost, match="table-backfill cancel"):
        build.verify()
    build.order(Command(Verb.CANCEL))
    build.run(CancelGoal())
    build.hand_off()
    build.assert_equal_at(source.head)


def test_an_epoch_whose_rows_all_fail_the_filter_advances(source: Source, tmp_path: Path) -> None:
    build = Build(source, tmp_path / "target", where="part = 9")
    build.read()
    change(source)
    state = build.consume_log()
    assert state.applied == source.head
    assert (state.totals.snapshot_rows, state.totals.log_rows) == (0, 0)
    assert state.totals.log_epochs == source.head - state.plan.source.epoch
    assert any(r.pending is not None and r.pending.rows > 0 for r in build.records())
    assert build.rows().count() == 0


def test_of_an_epoch_that_only_adds_the_rows_that_pass_the_filter_are_appended(source: Source, tmp_path: Path) -> None:
    build = Build(source, tmp_path / "target", where="id % 2 = 0")
    build.read()
    source.append(1000, 1020)
    state = build.consume_log()
    assert state.totals.log_rows == 10
    build.assert_equal_at(source.head)


def test_rows_are_counted_as_they_were_changed(source: Source, tmp_path: Path) -> None:
    """Empty versions and rewrites count nothing, a key that changes twice within a round counts once."""
    build = Build(source, tmp_path / "target")
    state = build.read()
    assert state.totals.snapshot_rows == build.rows().count() == 240
    source.sql("ALTER TABLE $table SET TBLPROPERTIES (x = '1')")
    source.sql("UPDATE $table SET $n = 5 WHERE $id < 10")
    source.sql("UPDATE $table SET $n = 6 WHERE $id < 10")
    source.merge_nothing()
    source.sql("DELETE FROM $table WHERE $id BETWEEN 20 AND 22")
    source.sql("OPTIMIZE $table")
    source.append(900, 904)
    state = build.consume_log()
    assert state.totals.log_rows == 10 + 3 + 4
    build.assert_equal_at(source.head)


@pytest.mark.parametrize(
    "emptied", [pytest.param(False, id="never written", marks=pytest.mark.soak), pytest.param(True, id="emptied")]
)
def test_a_table_without_rows(spark: SparkSession, source: Source, tmp_path: Path, emptied: bool) -> None:
    empty = source if emptied else no_rows(spark, str(tmp_path / "empty"), PLAIN)
    if emptied:
        source.sql("DELETE FROM $table")
    build = Build(empty, tmp_path / "target")
    state = build.hand_off()
    assert state.phase is Phase.FINISHED
    assert state.certificate is not None and state.certificate.rows == 0
    empty.append(1, 4)
    build.upstream()
    build.assert_equal_at(empty.head)


def test_the_target_was_written_to_by_another_writer(source: Source, tmp_path: Path) -> None:
    build = Build(source, tmp_path / "target")
    build.read()
    build.spark.sql(f"DELETE FROM delta.`{build.target}` WHERE id = 5")
    source.append(5000, 5010)
    before = build.reader.log.head()
    with pytest.raises(TargetDiverged):
        build.consume_log()
    assert build.reader.log.head() == before


def test_who_follows_a_build_is_fenced_before_it_is_dropped(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = Build(source, tmp_path / "target")
    finished = build.hand_off()
    last: list[str] = []

    def dropping(spark: SparkSession, target: str, table: str | None) -> None:
        newest = build.reader.state().newest
        assert newest is not None and newest.record.event is Event.CLAIM
        last.append(newest.record.attempt)
        drop_target(spark, target, table)

    monkeypatch.setattr(planner, "drop_target", dropping)
    planned = build.plan(OnExisting.RESTART)
    assert planned.plan.build != finished.plan.build
    assert last == [f"attempt-{build._generation}"]


@pytest.mark.soak
def test_maintenance_of_the_target_is_welcome(source: Source, tmp_path: Path) -> None:
    build = Build(source, tmp_path / "target")
    build.size = RoundSize(rows=60)
    build.read()
    build.spark.sql(f"OPTIMIZE delta.`{build.target}`")
    change(source)
    build.consume_log()
    build.spark.sql(f"OPTIMIZE delta.`{build.target}`")
    build.catch_up()
    build.verify()
    assert build.finish().phase is Phase.FINISHED


def test_a_target_that_is_not_equal_gets_no_hand_off(
    source: Source, tmp_path: Path, corrupt: Callable[[Build], None]
) -> None:
    build = Build(source, tmp_path / "target")
    build.read()
    build.apply_log()
    corrupt(build)
    with pytest.raises(VerificationFailed) as failed:
        build.verify()
    assert sum(failed.value.data["counts"].values()) > 0
    with pytest.raises(VerificationFailed):
        build.finish()
    assert build.reader.state().phase is Phase.CATCH_UP


@pytest.fixture
def corrupt() -> Callable[[Build], None]:
    """Change rows behind the log's back: a data file takes another one's place."""

    def swap(build: Build) -> None:
        # Empty barriers leave files without rows, which nothing names: they are the small ones.
        files = sorted(Path(build.target).glob("*.parquet"), key=lambda file: file.stat().st_size)
        assert files[-1].read_bytes() != files[-2].read_bytes()
        files[-1].write_bytes(files[-2].read_bytes())
        for file in Path(build.target).glob(".*.crc"):
            file.unlink()

    return swap


def test_tasks_in_the_wrong_order_write_nothing(source: Source, tmp_path: Path) -> None:
    build = Build(source, tmp_path / "target")
    build.plan()
    before = build.reader.log.head()
    for phase in (build.consume_log, build.catch_up, build.verify, build.finish, build.upstream):
        with pytest.raises((NotAllowedNow, VerificationFailed)):
            phase()
    assert build.reader.log.head() == before


def test_a_plan_holds_the_live_rows_of_each_split_if_all_files_are_counted(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "SPLITS", 3)
    source.sql("DELETE FROM $table WHERE $id % 11 = 3")
    plan = Build(source, tmp_path / "counted").plan().plan
    files, borders = open_source(source.spark, source.path).files(plan.source.epoch), plan.splits.borders
    live = tuple(files.read(range(*split)).count() for split in pairwise(borders))
    assert len(live) == 3 and plan.splits.split_rows == live

    source.spark.conf.set("spark.databricks.delta.stats.collect", "false")
    try:
        source.append(5000, 5020)
    finally:
        source.spark.conf.unset("spark.databricks.delta.stats.collect")
    assert Build(source, tmp_path / "uncounted").plan().plan.splits.split_rows is None


@pytest.mark.soak
@pytest.mark.parametrize("splits", [1, 3])
def test_a_log_round_costs_the_same_with_any_number_of_splits(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, splits: int, jobs: dict[int, int]
) -> None:
    monkeypatch.setattr(snapshot, "SPLITS", splits)
    build = Build(source, tmp_path / "target")
    assert len(build.plan().plan.splits) == splits
    build.snapshot()
    change(source)
    before = _jobs(build.spark)
    build.consume_log()
    jobs[splits] = _jobs(build.spark) - before
    assert len(set(jobs.values())) == 1


@pytest.fixture(scope="module")
def jobs() -> dict[int, int]:
    """How many jobs a round took, by the number of splits."""
    return {}


def _jobs(spark: SparkSession) -> int:
    """How many jobs the session has begun."""
    return int(spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())
