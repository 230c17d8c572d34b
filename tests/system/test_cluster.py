"""Whole builds on a Spark cluster while the source keeps changing: a worker dies in a round, and the build goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_backfill.ledger.control_folder import ControlFolder
from airflow_backfill.ledger.reader import BuildReader
from tests.system.applications import Applications, all_phases
from tests.system.cluster import Cluster, cluster
from tests.system.workload import Workload
from tests.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.soak]

SMALL = ("--round-rows", "3000")
ALL = all_phases(lag_epochs=60)
SOON = 200.0


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster"), workers=2) as one:
        yield one


@pytest.mark.parametrize("strategy", ["snapshot", "arrangement", "chain"])
def test_a_build_outlives_a_worker(workload: Workload, tmp_path: Path, two_workers: Cluster, strategy: str) -> None:
    target = str(tmp_path / "target")
    apps = Applications(target, two_workers.confs(), master=two_workers.url)
    with workload.writer():
        apps.result("plan", "--spec", workload.spec(target, strategy=strategy))
        reader = BuildReader(target)
        before = reader.log.head()
        with apps.running("snapshot", *SMALL, *ALL) as me:
            until(lambda: reader.log.head() >= before + 3, SOON)
            two_workers.workers[-1].kill()
            two_workers.add_worker()
        outcome = ControlFolder.beside(target).outcome(me)
        assert outcome is not None and outcome["code"] == "OK", (outcome, apps.log[-1][-3000:])
        finished = outcome["result"]
        followed = apps.result("upstream")
    workload.check(target, finished["epoch"], finished["target_version"])
    workload.check(target, followed["epoch"], followed["target_version"])


@pytest.mark.parametrize("kept", [True, False], ids=["recovery", "no recovery"])
def test_a_build_outlives_the_master(workload: Workload, tmp_path: Path, kept: bool) -> None:
    """The master is killed and starts again. Without recovery mode it has forgotten the application, which ends; the
    next one goes on.
    """
    target = str(tmp_path / "target")
    with cluster(tmp_path / "cluster", workers=2, kept=kept) as one:
        apps = Applications(target, one.confs(), master=one.url, timeout=900)
        with workload.writer():
            apps.result("plan", "--spec", workload.spec(target))
            reader = BuildReader(target)
            before = reader.log.head()
            with apps.running("snapshot", *SMALL, *ALL) as me:
                until(lambda: reader.log.head() >= before + 3, SOON)
                one.restart_master()
            outcome = ControlFolder.beside(target).outcome(me)
            if not kept:
                assert "without any executor: the application ends" in apps.log[-1], apps.log[-1][-3000:]
                outcome = {"code": "OK", "result": apps.result("snapshot", *SMALL, *ALL)}
    assert outcome is not None and outcome["code"] == "OK", (outcome, apps.log[-1][-3000:])
    workload.check(target, outcome["result"]["epoch"], outcome["result"]["target_version"])


def test_rows_that_an_executor_held_are_read_again(workload: Workload, tmp_path: Path, two_workers: Cluster) -> None:
    """All executors end between the staging of a round and its MERGE. The same application repeats the round."""
    target = str(tmp_path / "target")
    apps = Applications(target, two_workers.confs(), master=two_workers.url)
    with workload.writer():
        planned = apps.result("plan", "--spec", workload.spec(target))
        apps.result("snapshot")
        workload.wait_for_epochs(planned["snapshot_epoch"], 20)
        outcome = apps.run("consume_log", *ALL[2:], "--max-lag-epochs", "60", crash="before_apply:1:executors")
    assert outcome is not None and outcome["code"] == "OK", (outcome, apps.log[-1][-3000:])
    assert "the round failed (1 of 4): an executor ended" in apps.log[-1]
    workload.check(target, outcome["result"]["epoch"], outcome["result"]["target_version"])


def test_executors_that_end_in_a_verification_cost_time_only(
    workload: Workload, tmp_path: Path, two_workers: Cluster
) -> None:
    target = str(tmp_path / "target")
    apps = Applications(target, two_workers.confs(), master=two_workers.url)
    with workload.writer():
        apps.result("plan", "--spec", workload.spec(target))
        apps.result("snapshot", *ALL[:4])
        outcome = apps.run("verify", crash="after_part:1:executors")
    assert outcome is not None and outcome["code"] == "OK", (outcome, apps.log[-1][-3000:])
    assert "Lost executor" in apps.log[-1]
    finished = apps.result("finish")
    workload.check(target, finished["epoch"], finished["target_version"])


def test_a_target_that_an_executor_does_not_see_is_refused(workload: Workload, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    with cluster(tmp_path / "cluster", workers=1) as one:
        one.add_worker(hidden=lake)
        apps = Applications(str(lake / "target"), one.confs(), master=one.url)
        outcome = apps.run("plan", "--spec", workload.spec(str(lake / "target")))
        assert outcome is not None and outcome["code"] == "SPEC_INVALID", outcome
        assert "an executor does not see it" in outcome["message"]
    assert not (lake / "target").exists()
    with cluster(tmp_path / "cluster", workers=2) as one:
        apps.master = one.url
        apps.result("plan", "--spec", workload.spec(str(lake / "target")))
