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
from airflow_backfill.spark.session.settings import session_confs, sizes
from demo.kafka.broker import Broker
from environment import quick
from tests.kafka.conftest import broker, topic
from tests.made_once import made_once
from tests.spark import histories
from tests.spark.history import PLAIN, Source, create


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    builder = SparkSession.builder.master("local[2]").appName("tests")
    confs = {
        **session_confs(),
        **sizes(cores=2),
        # Many small queries in one process: Java compiles what is hot. Spark generates code in the demo's DAG, in the
        # bench, and in the soak.
        **quick.confs(LASTING),
        **quick.INTERPRETED,
        "spark.ui.enabled": "false",
        # The text of each plan, which only the UI shows.
        "spark.sql.ui.explainMode": "simple",
        "spark.driver.memory": "2500m",
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

LASTING = (
    "-XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC -Xms2500m -Xmn1200m -XX:+UseTransparentHugePages "
    "-XX:Tier4InvocationThreshold=25000 -XX:Tier4MinInvocationThreshold=3000 -XX:Tier4CompileThreshold=75000"
)
"""Options of a Java that lives as long as all tests of a worker. The slow compiler takes only what is five times as hot
as usual: otherwise it needs a third of all CPU. The heap is large from the start: with Java's own sizes a tenth of all
CPU collects garbage. Huge pages save another twentieth.
"""


@pytest.fixture(scope="session")
def history(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Source]:
    """A table that has lived through everything: with deletion vectors, without, or oddly named. Nobody changes it.

    All workers of a run share one of each kind.
    """

    def table(kind: str) -> Source:
        place = made_once(tmp_path_factory, f"history of {kind}", lambda place: histories.lay_out(spark, kind, place))
        return histories.source(spark, kind, place)

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


@pytest.fixture
def clustered(source: Source) -> Source:
    """Eight files, each a range of keys."""
    for start in range(1000, 1800, 200):
        source.append(start, start + 200)
    return source
