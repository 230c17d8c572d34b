"""A drop that was stopped, by a kill or a store that fails, leaves a part of a table: nothing takes it for a build, and
the next drop ends it.
"""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_backfill.core.errors import Fenced, HistoryLost, NotPlanned, SourceUnavailable, TargetExists
from airflow_backfill.core.model.record import FORMAT
from airflow_backfill.core.values.control import Control, obey
from airflow_backfill.ledger.control_folder import ControlFolder
from airflow_backfill.ledger.log_listing import LOG, commit_name
from airflow_backfill.spark.run import application, planner
from airflow_backfill.spark.run.application import work
from airflow_backfill.spark.run.phases import parser
from airflow_backfill.spark.run.planner import OnExisting, Planner
from airflow_backfill.spark.session import removal
from airflow_backfill.spark.session.removal import drop_target
from tests.spark.build import Build
from tests.spark.history import Source

pytestmark = pytest.mark.spark


@pytest.fixture(params=["files", "a commit", "the log"])
def build(request: pytest.FixtureRequest, source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Build:
    """A build with rows whose drop was stopped when these parts of the target were gone."""
    made = Build(source, tmp_path / "target")
    made.read()
    gone = {"files": "*.parquet", "a commit": "_delta_log/*2.json", "the log": "_delta_log/*.json"}[request.param]

    def stopped(spark: SparkSession, location: str) -> None:
        for file in Path(location).glob(gone):
            file.unlink()
        raise SourceUnavailable("stopped")

    with monkeypatch.context() as stopping:
        stopping.setattr(removal, "remove", stopped)
        with pytest.raises(SourceUnavailable):
            cancelled(made)
    return made


def cancelled(build: Build) -> dict[str, Any]:
    options = parser("cancel").parse_args(["--target", build.target, "--drop"])
    return work("cancel", options, build.spark, build.attempt())


def test_it_is_no_target_until_it_is_dropped_again(build: Build) -> None:
    with pytest.raises(TargetExists, match=f"run 'table-backfill cancel {build.target} --drop --why REASON'"):
        build.plan()
    assert cancelled(build) == {"dropped": [build.target]}
    assert not Path(build.target).exists()
    assert build.plan().totals.snapshot_rows == 0


@pytest.mark.parametrize("build", ["the log"], indirect=True)
def test_a_restart_ends_it(build: Build) -> None:
    assert build.plan(OnExisting.RESTART).totals.snapshot_rows == 0
    build.snapshot()
    build.assert_equal_at(build.source.head)


def test_a_restart_removes_what_an_attempt_writes_after_the_drop(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On an object store nothing keeps the executors of an attempt from ending their files while its target is dropped.
    No lock is there, and the attempt notices the drop only at its commit.
    """
    build, real, late = Build(source, tmp_path / "target"), removal.remove, tmp_path / "target" / "part-0.parquet"
    build.read()

    def removed(spark: SparkSession, location: str) -> None:
        real(spark, location)
        if location == build.target:
            late.parent.mkdir()
            late.write_bytes(b"rows of the old build")

    monkeypatch.setattr(removal, "remove", removed)
    assert build.plan(OnExisting.RESTART).totals.snapshot_rows == 0
    assert not late.exists()
    build.snapshot()
    build.assert_equal_at(source.head)


def test_a_restart_orders_attempts_that_still_run_to_end(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else one that is in the middle of a round on an object store commits to the next table, and goes on there."""
    build, told = Build(source, tmp_path / "target"), list[bool]()
    build.read()

    def dropped(*given: Any) -> None:
        state = build.reader.state()
        told.append(obey(Control(), build.reader.commands(state.plan.build)).cancelled)
        drop_target(*given)

    monkeypatch.setattr(planner, "drop_target", dropped)
    assert build.plan(OnExisting.RESTART).totals.snapshot_rows == 0
    assert told == [True]


def test_a_table_behind_whose_gap_an_optimize_of_the_dropped_one_has_committed_is_dropped(
    source: Source, tmp_path: Path
) -> None:
    build = Build(source, tmp_path / "target")
    build.plan()
    late = {"commitInfo": {"operation": "OPTIMIZE"}}
    Path(build.target, LOG, commit_name(9)).write_text(json.dumps(late) + "\n")
    with pytest.raises(HistoryLost, match=f"run 'table-backfill cancel {build.target} --drop --why REASON'"):
        build.plan(OnExisting.RESTART)
    assert cancelled(build)["dropped"] == [build.target]
    assert build.plan().totals.snapshot_rows == 0


@pytest.mark.parametrize("ours", [True, False])
def test_a_commit_without_the_one_before_is_dropped_if_a_build_wrote_it(
    spark: SparkSession, tmp_path: Path, ours: bool
) -> None:
    """An attempt was committing while its target was dropped, and the store took the file without its folder."""
    target, record = tmp_path / "target", {"airflow_backfill": FORMAT, "generation": 3}
    late = target / LOG / commit_name(5)
    late.parent.mkdir(parents=True)
    actions = [{"commitInfo": {"userMetadata": json.dumps(record)}}, {"txn": {"appId": "build/1/0", "version": 7}}]
    late.write_text("".join(json.dumps(action) + "\n" for action in actions[0 if ours else 1 :]))
    with nullcontext() if ours else pytest.raises(HistoryLost):
        removal.drop_target(spark, str(target), None)
    assert target.exists() is not ours


def test_another_table_in_its_place_stays(source: Source) -> None:
    ControlFolder.beside(source.path).begin_drop()
    with pytest.raises(NotPlanned, match="was not created by a table backfill, so it is not removed"):
        removal.drop_target(source.spark, source.path, None)
    assert Path(source.path, "_delta_log").is_dir()


@pytest.mark.parametrize("late", ["cancel", "restart", "folders"])
def test_a_late_drop_leaves_the_build_that_was_planned_since(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: str
) -> None:
    """Its store did not answer for a while, and Airflow took its task for lost: another try has dropped the build, and
    the next build is at work.
    """
    build = Build(source, tmp_path / "target")
    build.plan()
    where, name = {"cancel": (application, "ended"), "restart": (Planner, "_ended"), "folders": (removal, "remove")}[
        late
    ]
    real = getattr(where, name)

    def overtaken(*given: Any) -> Any:
        done = real(*given)
        monkeypatch.undo()
        cancelled(build)
        build.plan()
        return done

    monkeypatch.setattr(where, name, overtaken)
    if late == "folders":
        cancelled(build)
    else:
        with pytest.raises(Fenced, match="another table stands at"):
            build.plan(OnExisting.RESTART) if late == "restart" else cancelled(build)
    build.snapshot()
    build.assert_equal_at(source.head)
    assert build.reader.control.plan(build.reader.state().plan.build) is not None
