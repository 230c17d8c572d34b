"""Builds whose Spark is upgraded, and put back, from one task to the next: each version goes on with what the other one
has read, hashed and promised.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_backfill.core.values.jars import coordinates
from airflow_backfill.ledger.reader import BuildReader
from environment import quick
from environment.jars import Jar, fetch
from tests.made_once import made_once
from tests.spark import every_type
from tests.spark.every_type import SELECT, WHERE
from tests.spark.history import PLAIN, Source, difference
from tests.system.applications import Applications

pytestmark = [pytest.mark.spark, pytest.mark.soak]

OLDER = ("4.1.1", "4.0.1")
DRIVER = ("delta-spark==4.4.0", "numpy", "obstore", "pandas<3", "pendulum", "pyarrow", "pyyaml")
SMALL = ("--round-rows", "60")
LAG = ("--max-lag-epochs", "0")


@dataclass(frozen=True)
class Installed:
    """A Spark of this version, with its Delta."""

    version: str
    python: Path
    conf: dict[str, str]


@pytest.fixture(scope="module", params=OLDER)
def older(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    version: str = request.param

    def make(place: Path) -> None:
        uv = str(Path(sys.executable).with_name("uv"))
        python = str(place / "bin" / "python")
        subprocess.run([uv, "venv", "-q", "--python", sys.executable, str(place)], check=True)
        subprocess.run([uv, "pip", "install", "-q", "--python", python, f"pyspark=={version}", *DRIVER], check=True)
        delta = coordinates(version, kafka=False)
        fetch([Jar("", "", at) for at in (*delta, "io.delta:delta-storage:4.4.0")], place / "jars")

    place = made_once(tmp_path_factory, f"spark-{version}", make)
    jars = ":".join(map(str, sorted((place / "jars").glob("*.jar"))))
    conf = {"spark.driver.extraClassPath": jars, "spark.driver.extraJavaOptions": quick.OPTIONS}
    if version.startswith("4.0."):
        manager = "org.apache.spark.sql.execution.streaming.FileSystemBasedCheckpointFileManager"
        conf["spark.sql.streaming.checkpointFileManagerClass"] = manager
    return Installed(version, place / "bin" / "python", conf)


def change(source: Source, variant: bool) -> None:
    """Epochs with every kind of change, of rows read and not read yet."""
    source.sql("UPDATE $table SET name = concat(name, '+'), part = (part + 1) % 3, f = f + 1 WHERE id % 7 = 1")
    source.sql("DELETE FROM $table WHERE id % 11 = 3")
    add(source, variant)
    source.sql("OPTIMIZE $table")


def add(source: Source, variant: bool) -> None:
    every_type.add(source, source.head * 1000, variant=variant)


BUILDS: dict[str, dict[str, Any]] = {
    "snapshot": {"strategy": "snapshot", "proof": "incremental", "key": ["id"]},
    "arrangement": {"strategy": "arrangement", "key": ["id"], "clustering": "key"},
    "chain": {"strategy": "chain", "key": ["id"], "proof": "incremental"},
    "chain without key": {"strategy": "chain"},
}


@pytest.mark.parametrize("begins", ["older", "newer"])
@pytest.mark.parametrize("kind", BUILDS)
def test_a_build_goes_on_in_another_spark(
    spark: SparkSession, tmp_path: Path, older: Installed, kind: str, begins: str
) -> None:
    source = Source(spark, str(tmp_path / "source"), PLAIN)
    variant = not older.version.startswith("4.0.")
    every_type.create(source, variant=variant)
    target, select = str(tmp_path / "target"), [one for one in SELECT if variant or one != "v"]
    spec = {"name": "build", "source": source.path, "target": target, "select": select, "where": WHERE, **BUILDS[kind]}
    live = partial(change if "key" in spec else add, variant=variant)
    sparks = (Applications(target, older.conf, python=older.python), Applications(target))
    one, other = sparks if begins == "older" else reversed(sparks)

    one.result("plan", "--spec", json.dumps(spec))
    # The first commit takes the build over. A round of the arrangement reads two of the four files, of the others one.
    commits = 2 if kind == "arrangement" else 3
    assert one.run("snapshot", *SMALL, crash=f"after_commit:{commits}:group") is None
    part = BuildReader(target).state().totals.snapshot_rows
    assert 0 < part < 160, "the snapshot is not half read"
    live(source)
    other.result("plan", "--spec", json.dumps(spec))
    other.result("snapshot", *SMALL)
    live(source)
    one.result("consume_log", *LAG, *SMALL)
    live(source)
    other.result("catch_up", *LAG, *SMALL)
    said = [app.result("prove") for app in (one, other)]
    assert said[0]["digest"] == said[1]["digest"] == other.result("prove", "--full")["digest"]
    proven = one.result("verify")
    other.result("finish")
    for app in (one, other):
        live(source)
        app.result("upstream")
        followed = [reader.result("prove", "--full") for reader in (one, other)]
        assert followed[0]["digest"] == followed[1]["digest"] != proven["certificate"]["digest"]
        assert followed[0]["epoch"] == source.head
    rows = spark.read.format("delta").load(target)
    assert rows.count() == followed[0]["rows"]
    plain = [f"to_json({name}) AS {name}" if name in ("s", "v") else name for name in rows.columns]
    due = source.at(source.head).where(WHERE).selectExpr(*select)
    assert difference(rows.selectExpr(*plain), due.selectExpr(*plain)) == []
