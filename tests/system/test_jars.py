"""Spark without the jars that a build needs, with others, and with those that spark-submit downloads."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from airflow_backfill.spark_home import default_jars
from environment import quick
from tests.system.applications import Applications, all_phases
from tests.system.workload import Workload

pytestmark = [pytest.mark.spark, pytest.mark.slow]


class Bare(Applications):
    """Applications whose class path holds what the test says."""

    def confs(self) -> dict[str, str]:
        confs = super().confs()
        if "spark.driver.extraClassPath" not in self.conf:
            del confs["spark.driver.extraClassPath"]
        del confs["spark.driver.extraJavaOptions"]  # the class archive knows the locked jars
        return confs


def refused(tmp_path: Path, conf: dict[str, str]) -> dict[str, Any]:
    outcome = Bare(str(tmp_path / "target"), conf).run("plan", "--spec", "{}")
    assert outcome is not None and outcome["code"] == "SPARK_INCOMPLETE", outcome
    assert not (tmp_path / "target").exists()
    return outcome


def test_missing_jars_are_named(tmp_path: Path) -> None:
    assert "set spark.jars.packages to io.delta:delta-spark_4.2_2.13:4.4.0" in refused(tmp_path, {})["message"]


@pytest.mark.soak
def test_a_jar_for_another_spark_is_named(tmp_path: Path) -> None:
    [ours] = [jar for jar in quick.jars() if "delta-spark" in jar]
    others = shutil.copy(ours, tmp_path / "delta-spark_4.1_2.13-4.4.0.jar")
    assert str(others) in refused(tmp_path, {"spark.driver.extraClassPath": str(others)})["data"]["found"]


@pytest.mark.soak
def test_a_build_with_jars_that_spark_downloads(workload: Workload, tmp_path: Path) -> None:
    ours = default_jars({}, binary=str(Path(sys.executable).with_name("spark-submit")))
    conf = {**ours, "spark.jars.ivy": str(tmp_path / "ivy")}
    target = str(tmp_path / "target")
    apps = Bare(target, conf)
    with workload.writer():
        apps.result("plan", "--spec", workload.spec(target))
        finished = apps.result("snapshot", *all_phases(lag_epochs=60))
    assert len(list((tmp_path / "ivy" / "jars").iterdir())) < 20
    workload.check(target, finished["epoch"], finished["target_version"])
