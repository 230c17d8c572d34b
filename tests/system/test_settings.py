"""Settings that people give to a real application win."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.history import PLAIN, Source, create
from tests.system import event_log
from tests.system.applications import Applications

pytestmark = [pytest.mark.spark, pytest.mark.slow]

GIVEN = {
    "spark.sql.shuffle.partitions": "64",
    "spark.scheduler.mode": "FIFO",
    "spark.sql.catalog.other": "org.apache.spark.sql.connector.catalog.InMemoryCatalog",
}
CATALOGS = {"spark.sql.defaultCatalog": "other", "spark.sql.catalog.spark_catalog": "org.example.NotThere"}
SITE = """<configuration>
  <property><name>fs.s3a.input.stream.type</name><value>prefetch</value></property>
</configuration>
"""
STATE = "spark.databricks.delta.snapshotPartitions"


def test_what_was_given_stays_and_the_rest_has_the_size_of_the_work(spark: SparkSession, tmp_path: Path) -> None:
    source = Source(spark, str(tmp_path / "source"), PLAIN)
    create(source)
    target, logs = str(tmp_path / "target"), tmp_path / "events"
    spec = {"name": "settings", "source": source.path, "target": target, "key": ["id"]}
    given = {**GIVEN, **CATALOGS, "spark.sql.extensions": "org.example.NotThere", **event_log.confs(logs)}
    (tmp_path / "core-site.xml").write_text(SITE)
    apps = Applications(target, given, cores=3, environment={"HADOOP_CONF_DIR": str(tmp_path)})
    apps.result("plan", "--spec", json.dumps(spec))
    (log,) = event_log.logs(logs, "plan")
    found = event_log.settings(log)
    assert {name: found[name] for name in GIVEN} == GIVEN
    assert found["spark.sql.extensions"] == "org.example.NotThere,io.delta.sql.DeltaSparkSessionExtension"
    assert found["spark.databricks.delta.optimizeWrite.enabled"] == "false"
    assert "spark.hadoop.fs.s3a.input.stream.type" not in found
    assert "spark.sql.shuffle.partitions stays 64, as given; by size it would be 3" in apps.log[-1]
    assert event_log.session_settings(log)[STATE] == "1"
    assert f"{STATE} is 1 (" in apps.log[-1]


def test_a_client_of_spark_connect_is_told_what_to_set(tmp_path: Path) -> None:
    apps = Applications(str(tmp_path / "target"), {"spark.api.mode": "connect"})
    outcome = apps.run("plan", "--spec", "{}")
    assert outcome is not None and outcome["code"] == "SPARK_INCOMPLETE"
    assert "set spark.api.mode to classic" in outcome["message"]
