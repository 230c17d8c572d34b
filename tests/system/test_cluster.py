"""Whole builds on a Spark cluster while the source keeps changing: a worker dies in a round, and the build goes on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from airflow_backfill.core.kafka.connection import VARIABLE
from airflow_backfill.core.splits.partitions import splits_of
from airflow_backfill.ledger.control_folder import ControlFolder
from airflow_backfill.ledger.reader import BuildReader
from demo.kafka.broker import Broker
from demo.kafka.topic import Topic
from tests.system.applications import Applications, all_phases
from tests.system.cluster import Cluster, cluster
from tests.system.lake import Lake
from tests.system.s3 import BUCKET, SOURCES
from tests.system.topic_workload import PLACE, ROW, TopicWorkload, connection, rows, shipped
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


@dataclass
class Site:
    """A cluster whose machines share nothing with the driver but a lake on S3."""

    lake: Lake
    cluster: Cluster
    driver: Path
    """Temporary files of drivers. Workers see neither this folder nor the lake's."""

    def applications(self, name: str) -> Applications:
        apps = self.lake.applications(name, self.lake.way.behind)
        apps.conf = {**self.cluster.confs(), **apps.conf, "spark.local.dir": str(self.driver)}
        apps.master, apps.environment = self.cluster.url, {"TMPDIR": str(self.driver)}
        return apps

    def outlives_a_worker(self, apps: Applications, *words: str) -> dict[str, Any]:
        """What the application of all phases returned. Meanwhile a worker was killed, and another one came."""
        reader = BuildReader(apps.target)
        before = reader.log.head()
        with apps.running("snapshot", *words) as me:
            until(lambda: reader.log.head() >= before + 3, SOON)
            self.cluster.workers[-1].kill()
            self.cluster.add_worker()
        outcome = ControlFolder.beside(apps.target).outcome(me)
        assert outcome is not None and outcome["code"] == "OK", (outcome, apps.log[-1][-3000:])
        result: dict[str, Any] = outcome["result"]
        assert result["phase"] == "finished", apps.log[-1][-3000:]
        return result


@pytest.fixture(scope="module")
def site(lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    hidden = lake.folder.parent
    driver = hidden / "driver"
    driver.mkdir()
    with cluster(tmp_path_factory.mktemp("site"), workers=2, hidden=hidden) as one:
        yield Site(lake, one, driver)


@pytest.mark.parametrize("strategy", ["snapshot", "arrangement", "chain"])
def test_a_build_outlives_a_driver_and_a_worker(site: Site, strategy: str) -> None:
    apps, lake = site.applications(strategy), site.lake
    with lake.writer():
        apps.result("plan", "--spec", lake.spec(apps.target, strategy=strategy))
        assert apps.run("snapshot", *SMALL, crash="before_commit:2:group") is None
        finished = site.outlives_a_worker(apps, *SMALL, *ALL)
        followed = apps.result("upstream")
    lake.check(apps.target, finished["epoch"], finished["target_version"])
    lake.check(apps.target, followed["epoch"], followed["target_version"])


def test_a_build_of_a_topic_outlives_a_driver_and_a_worker(
    site: Site, broker: Broker, topic: Topic, tmp_path: Path
) -> None:
    """Executors read the records, with decoders that the driver sends them. The landing table is on S3, too."""
    folder = site.lake.folder
    workload = TopicWorkload(topic, folder / SOURCES / "landing")
    apps = site.applications("clicks")
    apps.conf = {**apps.conf, **shipped(tmp_path)}
    apps.environment |= {VARIABLE: connection(broker)}
    rounds = ("--round-rows", "2000")
    with workload.at_work():
        apps.result("plan", "--spec", workload.spec(f"s3a://{SOURCES}/landing", apps.target, f"s3a://{BUCKET}/dead"))
        assert apps.run("snapshot", *rounds, crash="before_commit:2:group") is None
        finished = site.outlives_a_worker(apps, *rounds, *ALL)
        splits = splits_of(BuildReader(apps.target).state().positions)
    apps.result("upstream")
    handed_over = workload.wanted({number: split.landed for number, split in splits.items()})
    wanted, target = workload.wanted(), str(folder / BUCKET / "clicks")
    assert rows(target, ROW, finished["target_version"]) == handed_over.rows
    assert rows(target, ROW) == wanted.rows
    assert rows(str(folder / BUCKET / "dead"), PLACE) == wanted.dead


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
