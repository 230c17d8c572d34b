"""Builds whose commits go through Delta's S3DynamoDBLogStore: a commit exists once DynamoDB has its entry, and is
copied into the log afterwards, by its writer or by the next one who looks.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest
from pyspark.sql import SparkSession

from airflow_backfill.ledger.control_folder import ControlFolder
from airflow_backfill.ledger.reader import BuildReader
from tests.system.applications import all_phases
from tests.system.dynamodb import JARS, dynamodb
from tests.system.lake import Lake
from tests.system.s3 import gate, s3

pytestmark = [
    pytest.mark.spark,
    pytest.mark.soak,
    pytest.mark.skipif(not JARS, reason="DYNAMODB_JARS names no folder with the jars of Delta's log store"),
]
RACES = 50
SMALL = ("--round-rows", "3000")
ALL = all_phases(lag_epochs=60)
LOG_STORE = "io.delta.storage.S3DynamoDBLogStore"


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp("s3")
    with s3(folder) as service, gate(service) as way, dynamodb(folder) as confs, pytest.MonkeyPatch.context() as patch:
        for name, value in way.environment.items():
            patch.setenv(name, value)
        yield Lake(spark, folder / "objects", way, confs)


def test_a_build_goes_on_after_a_kill_in_the_log(lake: Lake) -> None:
    apps = lake.applications("killed")
    with lake.writer():
        planned = apps.result("plan", "--spec", lake.spec(apps.target))
        assert LOG_STORE in planned["report"]["commit_guarantee"]
        apps.result("snapshot", *SMALL)
        outcome = apps.run("consume_log", "--max-lag-epochs", "1", crash="before_commit:1:group")
        assert outcome is None
        finished = apps.result("consume_log", "--max-lag-epochs", "60", *ALL[2:])
        assert finished["phase"] == "finished", apps.log[-1][-5000:]
        followed = apps.result("upstream")
    lake.check(apps.target, finished["epoch"], finished["target_version"])
    lake.check(apps.target, followed["epoch"], followed["target_version"])


def test_a_commit_that_was_not_copied_counts_once_someone_looks(lake: Lake) -> None:
    """The application dies after DynamoDB has the commit and before the log has it."""
    apps = lake.applications("copied")
    with lake.writer():
        apps.result("plan", "--spec", lake.spec(apps.target))
        reader, control, reached = BuildReader(apps.target), ControlFolder.beside(apps.target), Event()
        last = reader.log.head() + 2

        def holds(method: str, path: str) -> bool:
            if method == "PUT" and path.endswith(f"/copied/_delta_log/{last:020}.json"):
                reached.set()
            return reached.is_set()

        lake.way.holds = holds
        me = control.draw_attempt({"task": "snapshot"}, floor=0)
        with apps.process("snapshot", me, *SMALL) as process:
            assert reached.wait(200)
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        lake.way.holds = lambda method, path: False
        assert reader.log.head() == last - 1 and control.outcome(me) is None
        finished = apps.result("snapshot", *SMALL, *ALL)
    committed = BuildReader(apps.target).log.read(last)
    assert json.loads(committed.user_metadata or "{}")["attempt"] == me.name
    lake.check(apps.target, finished["epoch"], finished["target_version"])


def test_two_applications_race_and_no_commit_is_lost(lake: Lake, tmp_path: Path) -> None:
    lake.race(lake.applications("racing"), RACES, tmp_path)
