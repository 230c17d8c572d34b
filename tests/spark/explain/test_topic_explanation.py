"""Why a row is as it is, for builds of real topics."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_backfill.core.errors import InvalidSpec
from airflow_backfill.core.kafka.connection import VARIABLE
from airflow_backfill.core.model.record import barrier_record
from airflow_backfill.core.reports.explained import as_text
from airflow_backfill.core.splits.partitions import held
from airflow_backfill.core.state.load import load
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.spark.explain.topic_explanation import TopicExplanation
from airflow_backfill.spark.kafka import key_records
from airflow_backfill.spark.run.application import main
from airflow_backfill.spark.run.interpreter import Shell
from airflow_backfill.spark.session.redaction import REDACT
from demo.kafka.topic import Record, Topic
from tests.cli.schema import check
from tests.spark.kafka.topics import Landing, TopicBuild

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("connection")]

START = int(time.time() * 1000) - 3_600_000


def explained(build: TopicBuild, key: str, since: int | None = None, state: BuildState | None = None) -> dict[str, Any]:
    shell = Shell(build.spark, build.target)
    found = TopicExplanation(build.spark, shell.reader, state or shell.run(load())).of([key], since)
    check("explain", json.loads(json.dumps(found)))
    assert as_text(found)
    return found


def fates(found: dict[str, Any]) -> list[tuple[int, str, str]]:
    """Offset, fate and keepers of each record."""
    return [(one["offset"], one["fate"], "+".join(one["kept_by"])) for one in found["records"]]


def record(key: int, name: str | None, partition: int = 0, at: int = 0) -> Record:
    value = None if name is None else name.encode()
    return Record(value, b'{"id": %d}' % key, partition, timestamp=at and START + at * 1000)


def paid(key: int, amount: str | None, partition: int = 0) -> Record:
    return record(key, None if amount is None else f'{{"paid": {amount}}}', partition)


def eventful(spark: SparkSession, topic: Topic, folder: Path) -> tuple[TopicBuild, Landing]:
    """A build, when Kafka has lost offsets 0 and 1 of partition 0, offset 6 never landed, and 8 has not landed yet."""
    topic.create(partitions=2)
    landing = Landing(topic, folder / "landing")
    topic.send([paid(1, "1"), paid(2, "2"), paid(5, "5"), paid(3, "3", 1), paid(3, "-3", 1)])
    landing.land_all()
    topic.truncate(2)
    decoding = {"key": "json:id BIGINT", "value": "json:paid DOUBLE", "undecodable": f"dead_letters:{folder / 'dead'}"}
    build = TopicBuild(
        spark, landing, folder / "target",
        key=["id"], select=["id", "paid * 2 AS twice"], where="paid > 0", topic=decoding,
    )  # fmt: skip
    build.read()
    topic.send([paid(1, '"x"'), paid(1, "11"), paid(2, None)])
    landing.land_all()
    build.consume_log()
    topic.send([paid(5, "7"), paid(1, "12")])
    landing.skip({0: 7})
    landing.land_all()
    build.consume_log()
    topic.send([paid(1, "13")])
    return build, landing


@pytest.mark.soak
def test_each_record_of_a_key_has_its_fate_and_the_commit_that_took_it(
    spark: SparkSession, topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build, _ = eventful(spark, topic, tmp_path)
    found = explained(build, "id=1")
    assert fates(found) == [
        (0, "taken", "landing"),
        (3, "taken", "kafka+landing"),
        (4, "taken", "kafka+landing"),
        (7, "taken", "kafka+landing"),
        (8, "pending", "kafka"),
    ]
    first, undecodable, *_ = found["records"]
    assert (first["image"]["paid"], first["made"]) == (1.0, {"id": 1, "twice": 2.0})
    assert undecodable["image"] is None and undecodable["undecodable"].startswith("value ")
    assert found["holds"] == found["should_hold"] == [{"id": 1, "twice": 24.0}]
    assert found["verdict"] == "equal" and "1 record of the key is still pending" in found["why"]
    versions = [one["applied_in"] and one["applied_in"]["version"] for one in found["records"]]
    assert versions == [took(build, 0), took(build, 3), took(build, 4), took(build, 7), None]
    assert versions[0] < versions[1] == versions[2] < versions[3]
    assert [one["partition"] for one in found["topic"]["partitions"]] == [0]
    found = explained(build, "id=5")
    assert fates(found) == [(2, "taken", "kafka+landing"), (6, "missed", "kafka")]
    assert found["holds"] == [{"id": 5, "twice": 10.0}] and "1 record of the key never landed" in found["why"]
    spark.conf.set(REDACT, "true")
    monkeypatch.delenv(VARIABLE)
    try:
        hidden = explained(build, "id=1")
    finally:
        spark.conf.unset(REDACT)
    assert hidden["holds"] == [{"id": 1, "twice": "***"}] and hidden["verdict"] == "equal"
    assert (hidden["records"][0]["image"]["paid"], hidden["records"][0]["image"]["offset"]) == ("***", 0)
    assert hidden["records"][1]["undecodable"] == "***"
    assert hidden["topic"]["error"]["code"] == "KAFKA_OPTION" and len(hidden["records"]) == 4


@pytest.mark.soak
def test_what_nobody_has_any_more_and_what_was_not_looked_at_leave_a_doubt(
    spark: SparkSession, topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build, landing = eventful(spark, topic, tmp_path)
    found = explained(build, "id=2")
    assert fates(found) == [(1, "taken", "landing"), (5, "taken", "kafka+landing")]
    assert found["records"][1]["tombstone"] and (found["verdict"], found["holds"]) == ("equal", [])
    assert "no row: a tombstone" in as_text(found)
    found = explained(build, "id=3")
    assert [one["made"] for one in found["records"]] == [{"id": 3, "twice": 6.0}, None]
    assert (found["verdict"], found["holds"]) == ("equal", []) and "'where' leaves it out" in as_text(found)
    found = explained(build, "id=4")
    assert (found["records"], found["verdict"]) == ([], "equal") and len(found["topic"]["partitions"]) == 2
    assert fates(explained(build, "id=1", since=7)) == [(7, "taken", "kafka+landing"), (8, "pending", "kafka")]
    with monkeypatch.context() as few:
        few.setattr(key_records, "MAX_OFFSETS", 4)
        newest = explained(build, "id=4")
    assert newest["verdict"] == "unknown" and "only the newest records" in newest["why"]
    state = build.reader.state()
    spark.sql(f"UPDATE delta.`{build.target}` SET twice = 9 WHERE id = 1")
    changed = replace(state, proven=build.reader.log.head())
    forged = explained(build, "id=1", state=changed)
    assert forged["verdict"] == "differs" and "differs in twice" in forged["why"]
    landing.delete("offset = 0")
    gone = explained(build, "id=99", state=changed)
    assert gone["verdict"] == "unknown" and "1 offsets of the history" in gone["why"]
    assert gone["topic"]["partitions"][0]["gone"] == 1 and "neither" in as_text(gone)
    assert explained(build, "id=2", state=changed)["verdict"] == "equal"
    monkeypatch.delenv(VARIABLE)
    assert explained(build, "id=99", state=changed)["verdict"] == "unknown"
    with pytest.raises(InvalidSpec, match="--since"):
        explained(build, "id=2", since=-1, state=changed)


@pytest.mark.soak
def test_a_key_in_several_partitions_and_a_stream_that_follows(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    """Without a landing table, and while the history is read."""
    topic.create(partitions=2)
    topic.send([record(1, "old", 0, 10), record(1, "new", 1, 30), record(1, "middle", 0, 20), record(2, "x", 0, 1)])
    build = TopicBuild(
        spark, Landing(topic, tmp_path / "unused"), tmp_path / "target", source=None, key=["id"],
        select=["id", "value AS name", "timestamp", "partition", "offset"],
        topic={"key": "json:id BIGINT", "value": "string", "order": "timestamp"},
    )  # fmt: skip
    build.plan()
    found = explained(build, "id=1")
    assert fates(found) == [(0, "pending", "kafka"), (1, "pending", "kafka"), (0, "pending", "kafka")]
    assert (found["verdict"], found["holds"]) == ("equal", [])
    build.snapshot()
    topic.send([record(1, "later", 1, 40)])
    found = explained(build, "id=1")
    assert [(one["image"]["value"], one["fate"]) for one in found["records"]] == [
        ("old", "taken"),
        ("middle", "taken"),
        ("new", "taken"),
        ("later", "later"),
    ]
    assert found["verdict"] == "equal" and found["should_hold"][0]["name"] == "new"
    me = build.reader.draw_attempt({"task": "explain"})
    line = ["--target", build.target, "--generation", str(me.generation), "--attempt", me.name, "--key=id=1"]
    assert main("explain", line) == 0
    stored = build.reader.control.explanation(me.generation)
    assert stored == found and "taken in version" in as_text(stored)
    topic.truncate(1)
    assert explained(build, "id=1")["verdict"] == "unknown"


def took(build: TopicBuild, offset: int) -> int:
    """The first version whose record says that the target has partition 0 up to an offset."""
    log = build.reader.log
    found = ((version, barrier_record(log.read(version))) for version in range(log.head() + 1))
    return next(v for v, one in found if one is not None and held(one.positions)[0] >= offset)
