"""Whole builds on S3, through S3A, while the source keeps changing: killed, and with answers that are lost.

The service keeps its objects as files, so the writer changes the source there, and the oracles read the target there,
without S3A. What the builds do goes through the service.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_backfill.ledger.reader import BuildReader
from tests.system.applications import Applications, all_phases
from tests.system.s3 import BUCKET, S3, SOURCES, Gate, gate, s3
from tests.system.workload import Workload

pytestmark = [pytest.mark.spark, pytest.mark.soak]

SMALL = ("--round-rows", "3000")
ALL = all_phases(lag_epochs=60)
KILLS = {
    "snapshot": ("after_commit:3:python", "before_commit:3:jvm", "before_verify:1:group"),
    "arrangement": ("after_commit:2:python", "before_commit:3:jvm", "before_verify:1:group"),
    "chain": ("after_commit:4:python", "before_commit:4:jvm", "before_verify:1:group"),
}


class Lake(Workload):
    """A source in a bucket. Applications go through a gate."""

    def __init__(self, spark: SparkSession, objects: Path, way: Gate) -> None:
        self.way = way
        super().__init__(spark, objects)

    def spec(self, target: str, **more: str) -> str:
        return super().spec(target, source=f"s3a://{SOURCES}/orders", **more)

    def applications(self, name: str, service: S3 | None = None) -> Applications:
        """Those of a target of this name."""
        return Applications(f"s3a://{BUCKET}/{name}", (service or self.way).confs)

    def check(self, target: str, epoch: int, version: int) -> None:
        super().check(str(self.folder / BUCKET / target.rpartition("/")[2]), epoch, version)


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp("s3")
    with s3(folder) as service, gate(service) as way, pytest.MonkeyPatch.context() as patch:
        for name, value in way.environment.items():
            patch.setenv(name, value)
        yield Lake(spark, folder / "objects", way)


@pytest.mark.parametrize("strategy", list(KILLS))
def test_a_build_goes_on_after_each_kill(lake: Lake, strategy: str) -> None:
    apps = lake.applications(strategy, lake.way.behind)
    with lake.writer():
        apps.result("plan", "--spec", lake.spec(apps.target, strategy=strategy))
        read = list[int]()
        for crash in KILLS[strategy]:
            outcome = apps.run("snapshot", *SMALL, *ALL, crash=crash)
            assert outcome is None or outcome["code"] != "OK", crash
            read.append(BuildReader(apps.target).state().totals.snapshot_rows)
        finished = apps.result("snapshot", *SMALL, *ALL)
        followed = apps.result("upstream")
    assert read == sorted(read) and read[0] < read[-1]
    lake.check(apps.target, finished["epoch"], finished["target_version"])
    lake.check(apps.target, followed["epoch"], followed["target_version"])
