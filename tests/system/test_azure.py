"""Whole builds on Azure's blob service, through ABFS, while the source keeps changing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.made_once import made_once
from tests.system.azure import PROGRAM, AzureLake, azurite, download_jars, make_container
from tests.system.lake import KILLS
from tests.system.s3 import gate

pytestmark = [
    pytest.mark.spark,
    pytest.mark.soak,
    pytest.mark.skipif(not PROGRAM, reason="AZURITE names no program"),
]
RACES = 50


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzureLake]:
    jars = made_once(tmp_path_factory, "abfs", download_jars)
    folder = tmp_path_factory.mktemp("azure")
    with azurite(folder / "objects") as service, gate(service) as way, pytest.MonkeyPatch.context() as patch:
        for name, value in AzureLake.environment(way).items():
            patch.setenv(name, value)
        make_container(way.endpoint)
        yield AzureLake(spark, folder, way, jars)


@pytest.mark.parametrize("strategy", list(KILLS))
def test_a_build_goes_on_after_each_kill(lake: AzureLake, strategy: str) -> None:
    lake.kill(lake.applications(strategy), strategy)


def test_lost_answers_to_commits_are_settled_by_reading_back(lake: AzureLake) -> None:
    """ABFS asks again, is told that the file exists, and Delta takes its own commit for another writer's."""
    lake.lose_answers(lake.applications("lost"))


def test_two_applications_race_and_no_commit_is_lost(lake: AzureLake, tmp_path: Path) -> None:
    lake.race(lake.applications("racing"), RACES, tmp_path)
