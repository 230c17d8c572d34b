"""One Spark session for all tests of this folder, and tables with a history to read."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_backfill.core.kafka.connection import VARIABLE
from airflow_backfill.spark.session.settings import session_confs
from demo.kafka.broker import Broker
from environment import quick
from tests.kafka.conftest import broker, topic
from tests.spark.history import Source, create, live_through


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    builder = SparkSession.builder.master("local[2]").appName("tests")
    confs = session_confs(cores=2) | {
        # Tests are many small queries: compiling them well costs more than running them, and Spark's own generated
        # code costs more than interpreting (a quarter of all CPU here). What starts an application runs it compiled.
        **quick.confs(),
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.codegen.wholeStage": "false",
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
    }
    for name, value in confs.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


__all__ = ["broker", "topic"]

PLAIN = ("id", "part", "name", "n")
# No backtick: Delta itself fails to UPDATE a table with one in a column name, if it has a change feed.
ODD = ("the id", "part,of;it", "na.me", "n=(1)")


@pytest.fixture(scope="session")
def history(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Source]:
    """A table that has lived through everything, made once: with deletion vectors, without, or oddly named."""
    made: dict[str, Source] = {}

    def table(kind: str) -> Source:
        if kind not in made:
            columns = ODD if kind == "odd names" else PLAIN
            source = made[kind] = Source(spark, str(tmp_path_factory.mktemp("history") / "table"), columns)
            create(source, vectors=kind != "no vectors", partitioned=kind == "odd names")
            live_through(source)
        return made[kind]

    return table


@pytest.fixture(scope="session")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Source:
    """What each test's own source is a copy of."""
    table = Source(spark, str(tmp_path_factory.mktemp("made") / "table"), PLAIN)
    create(table)
    return table


@pytest.fixture
def source(made: Source, tmp_path: Path) -> Source:
    """A table of its own for a test, with rows since version 1."""
    path = shutil.copytree(made.path, tmp_path / "source")
    return replace(made, path=str(path))


@pytest.fixture
def connection(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """How to reach the broker is said where a build looks for it."""
    monkeypatch.setenv(VARIABLE, json.dumps({"bootstrap.servers": broker.servers}))
