"""A disk that is full: the error says so, nothing is lost, and the task goes on once there is room."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_backfill.core.errors import TargetExists
from airflow_backfill.core.values.round_size import RoundSize
from airflow_backfill.spark.session import creation
from airflow_backfill.spark.session.failure import coded
from tests.disk import SIZE, disk, leave
from tests.spark.build import Build
from tests.spark.history import Source

pytestmark = [pytest.mark.spark, pytest.mark.slow]

__all__ = ["disk"]

ROOT = Path(__file__).parents[3]
LITTLE, MUCH = (0, 5 << 12), (0, 1 << 12, 5 << 12, 10 << 12, 40 << 12)


@pytest.mark.soak
@pytest.mark.parametrize("rooms", [LITTLE, MUCH], ids=["little", "much"])
def test_each_phase_goes_on_once_there_is_room(source: Source, disk: Path, rooms: tuple[int, ...]) -> None:
    build = Build(source, disk / "target")
    build.size = RoundSize(rows=100)

    def through(phase: Callable[[], object]) -> list[str]:
        codes: list[str] = []
        for room in rooms:
            leave(disk, room)
            try:
                phase()
            except Exception as error:
                found = coded(error)
                assert "at the target" in found.message or str(disk) in found.message
                codes.append(found.code)
            leave(disk, SIZE)
        phase()
        return codes

    refused = through(build.plan) + through(build.snapshot)
    source.append(1000, 1300)
    source.sql("UPDATE $table SET $name = 'later' WHERE $id % 3 = 0")
    refused += through(build.consume_log)
    source.sql("DELETE FROM $table WHERE $id % 5 = 0")
    for phase in (build.catch_up, build.verify, build.finish):
        phase() if rooms == LITTLE else through(phase)
    build.assert_equal_at(source.head)
    assert set(refused) == {"NO_SPACE"} and len(refused) >= 2 * len(rooms)


@pytest.mark.soak
def test_a_disk_of_spark_s_own_is_named(disk: Path) -> None:
    leave(disk, 1 << 20)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", SHUFFLE, disk], env=environment, capture_output=True, text=True, check=True
    )
    code, message = done.stdout.strip().split(" ", 1)
    assert code == "NO_SPACE"
    assert re.search(r"full, or a quota is used up, in spark\.local\.dir of [\w.-]+: IOException", message)


SHUFFLE = """
import sys
from pyspark.sql import SparkSession
from airflow_backfill.spark.session.failure import coded
from environment import quick

builder = SparkSession.builder.master("local[2]")
for name, value in {**quick.confs(), "spark.local.dir": sys.argv[1], "spark.ui.enabled": "false"}.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
try:
    spark.range(1_000_000).selectExpr("uuid() AS text").repartition(7).selectExpr("max(text)").collect()
except Exception as error:
    print(coded(error).code, coded(error).message)
"""


def test_a_log_that_is_no_planners_is_left_alone(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(creation, "TRIES", 2)
    log = tmp_path / "target" / "_delta_log"
    log.mkdir(parents=True)
    (log / "precious.csv").write_text("1")
    with pytest.raises(TargetExists, match=r"precious\.csv"):
        Build(source, tmp_path / "target").plan()
    assert (log / "precious.csv").read_text() == "1"
