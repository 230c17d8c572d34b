"""S3 through S3A: what a session finds there, and a whole small build."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.system.applications import ROOT, Applications, all_phases, submitted
from tests.system.s3 import BUCKET, S3, SOURCES, gate, s3

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("s3")


@pytest.fixture(scope="module")
def service(folder: Path) -> Iterator[S3]:
    with s3(folder, asks_who=False) as one, pytest.MonkeyPatch.context() as patch:
        for name, value in one.environment.items():
            patch.setenv(name, value)
        yield one


def test_what_a_session_finds(service: S3, folder: Path) -> None:
    for bucket in ("deaf", "losing"):
        (folder / "objects" / bucket).mkdir()
    with ExitStack() as open_gates:
        deaf, losing = (open_gates.enter_context(gate(service)) for _ in range(2))
        deaf.takes_condition = True
        losing.loses_answer = lambda method, path: (
            method == "PUT" and path.endswith("1.json") and path not in losing.lost
        )
        apps = Applications("", service.confs)
        confs = apps.confs() | {
            "spark.hadoop.fs.s3a.bucket.deaf.endpoint": deaf.endpoint,
            "spark.hadoop.fs.s3a.bucket.losing.endpoint": losing.endpoint,
            "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        }
        program = ROOT / "tests" / "system" / "s3_session.py"
        with submitted(program, (), ["--master", "local[1]", "--driver-memory", "1g"], confs, {}) as process:
            output, _ = process.communicate(timeout=300)
        assert process.returncode == 0, output[-5000:]
        assert len(losing.lost) == 1


def test_a_whole_build(spark: SparkSession, service: S3, folder: Path) -> None:
    source, target = (str(folder / "objects" / name) for name in (f"{SOURCES}/source", f"{BUCKET}/target"))
    spark.range(500).selectExpr("id", "id % 7 AS n").write.format("delta").option(
        "delta.enableChangeDataFeed", "true"
    ).save(source)
    apps = Applications(f"s3a://{BUCKET}/target", service.confs)
    spec = f'{{"name": "b", "source": "s3a://{SOURCES}/source", "target": "{apps.target}", "key": ["id"]}}'
    planned = apps.result("plan", "--spec", spec)
    assert "one of two writers won each of" in planned["report"]["commit_guarantee"]
    spark.sql(f"DELETE FROM delta.`{source}` WHERE id < 50")
    finished = apps.result("snapshot", *all_phases(lag_epochs=1))
    assert finished["phase"] == "finished" and finished["epoch"] == 1
    rows = [spark.read.format("delta").load(table) for table in (source, target)]
    assert rows[1].count() == 450 and rows[0].exceptAll(rows[1]).isEmpty()
