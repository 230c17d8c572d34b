"""Whole builds on Google's Cloud Storage while the source keeps changing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from environment.jars import Jar, fetch
from tests.made_once import made_once
from tests.system.cloud_storage import CONNECTORS, PYTHON, GcsLake, make_bucket, testbench
from tests.system.lake import KILLS
from tests.system.s3 import gate

pytestmark = [
    pytest.mark.spark,
    pytest.mark.soak,
    pytest.mark.skipif(not PYTHON, reason="TESTBENCH names no Python"),
]
RACES = 50


@pytest.fixture(scope="module", params=CONNECTORS)
def lake(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GcsLake]:
    coordinates, connector = CONNECTORS[request.param]
    jars = made_once(tmp_path_factory, f"gcs-{request.param}", lambda into: fetch([Jar("", "", coordinates)], into))
    folder = tmp_path_factory.mktemp(request.param)
    with testbench() as service, gate(service) as way, pytest.MonkeyPatch.context() as patch:
        for name, value in GcsLake.environment(way).items():
            patch.setenv(name, value)
        make_bucket(way.endpoint)
        with connector(folder, way.endpoint) as settings:
            yield GcsLake(spark, folder, way, jars, settings)


@pytest.mark.parametrize("strategy", list(KILLS))
def test_a_build_goes_on_after_each_kill(lake: GcsLake, strategy: str) -> None:
    lake.kill(lake.applications(strategy), strategy)


def test_lost_answers_to_commits_are_settled_by_reading_back(lake: GcsLake) -> None:
    lake.lose_answers(lake.applications("lost"))


def test_two_applications_race_and_no_commit_is_lost(lake: GcsLake, tmp_path: Path) -> None:
    lake.race(lake.applications("racing"), RACES, tmp_path)
