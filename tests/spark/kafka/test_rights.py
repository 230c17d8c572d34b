"""The rights of docs/rights.md are enough for a whole build and for an ingestion, and without one its name is said."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_backfill.core.attempts.goals import RepairGoal
from airflow_backfill.core.errors import KafkaRefused
from airflow_backfill.core.kafka.connection import VARIABLE, client_options
from airflow_backfill.core.kafka.topic_retention import TopicRetention
from airflow_backfill.spark.explain.topic_explanation import TopicExplanation
from airflow_backfill.spark.kafka.broker import Broker as Asked
from airflow_backfill.spark.run.landing_app import land
from airflow_backfill.spark.run.landing_app import parser as landing_parser
from demo.kafka.broker import Broker, Login
from demo.kafka.rights import Rights
from demo.kafka.topic import Record, Topic
from tests.kafka.conftest import GUEST, INGESTION
from tests.spark.kafka.topics import Landing, MakeBuild, everything, numbered

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def connection(broker: Broker, login: Login) -> str:
    return json.dumps(
        {
            "bootstrap.servers": broker.sasl_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": login.user,
            "sasl.password": login.password,
        }
    )


def keyed(*numbers: int) -> list[Record]:
    return [Record(b"v%d" % n, b'{"id": %d}' % n) for n in numbers]


@pytest.fixture
def guest(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv(VARIABLE, connection(broker, GUEST))
    return connection(broker, GUEST)


@pytest.mark.soak
def test_a_guest_builds_what_another_one_lands(
    spark: SparkSession, broker: Broker, guest: str, topic: Topic, make_build: MakeBuild, tmp_path: Path
) -> None:
    topic.create(partitions=2)
    rights = Rights(broker.servers)
    rights.allow(GUEST.user, topic.name, "READ", "DESCRIBE_CONFIGS")
    rights.allow(INGESTION.user, topic.name, "READ")
    table = str(tmp_path / "landed")
    words = ["--topic", topic.name, "--table", table, "--checkpoint", str(tmp_path / "notes")]

    def ingested() -> None:
        land(spark, client_options(connection(broker, INGESTION)), landing_parser().parse_args(words))

    topic.send(numbered(5) + numbered(5, 1))
    ingested()
    topic.send(numbered(3, first=5))
    ingested()
    build = make_build(source=table, topic={"checkpoint": str(tmp_path / "notes")})

    def refused_without_read(phase: Callable[[], object]) -> None:
        rights.allow(GUEST.user, topic.name, "DESCRIBE", "DESCRIBE_CONFIGS")
        with pytest.raises(KafkaRefused, match=f"right Read on topic {topic.name}"):
            phase()
        rights.allow(GUEST.user, topic.name, "READ", "DESCRIBE_CONFIGS")
        phase()

    build.plan()
    refused_without_read(build.snapshot)
    build.apply_log()
    refused_without_read(build.verify)
    build.finish()
    assert build.content() == everything(topic)
    rights.allow(GUEST.user, topic.name)
    topic.send(numbered(2, 1, first=5))
    ingested()
    build.upstream()
    assert build.content() == everything(topic)


def test_a_right_that_is_lost_later_is_named_by_repair_and_explain(
    spark: SparkSession, broker: Broker, guest: str, topic: Topic, landing: Landing, make_build: MakeBuild
) -> None:
    topic.create()
    topic.send(keyed(1, 2, 3))
    rights = Rights(broker.servers)
    rights.allow(GUEST.user, topic.name, "READ", "DESCRIBE_CONFIGS")
    landing.land_all()
    build = make_build(key=["id"], select=["id", "value"], topic={"key": "json:id BIGINT", "value": "string"})
    build.read()
    state = build.apply_log()
    rights.allow(GUEST.user, topic.name, "DESCRIBE", "DESCRIBE_CONFIGS")
    explained = TopicExplanation(spark, build.reader, state)
    for work in (lambda: build.run(RepairGoal()), lambda: explained.of(["id=1"])):
        with pytest.raises(KafkaRefused, match=f"right Read on topic {topic.name}") as refused:
            work()
        assert refused.value.data["right"] == "Read"
    assert build.content() == [(1, "v1"), (2, "v2"), (3, "v3")]


@pytest.mark.parametrize(("missing", "allowed"), [("Describe", ()), ("Read", ("DESCRIBE", "DESCRIBE_CONFIGS"))])
def test_a_right_that_is_missing_is_named(
    broker: Broker, guest: str, topic: Topic, make_build: MakeBuild, tmp_path: Path, missing: str, allowed: tuple[str]
) -> None:
    topic.create()
    topic.send(numbered(3))
    Rights(broker.servers).allow(GUEST.user, topic.name, *allowed)
    build = make_build()
    with pytest.raises(KafkaRefused, match=missing) as refused:
        build.plan()
    assert refused.value.data["topic"] == topic.name and refused.value.data["right"] == missing
    assert not (tmp_path / "target").exists()


def test_without_the_right_to_its_configuration_the_retention_is_unknown(
    spark: SparkSession, broker: Broker, guest: str, topic: Topic
) -> None:
    topic.create()
    rights, asked = Rights(broker.servers), Asked(spark, client_options(guest), topic.name)
    rights.allow(GUEST.user, topic.name, "READ")
    assert asked.retention() == TopicRetention()
    rights.allow(GUEST.user, topic.name, "READ", "DESCRIBE_CONFIGS")
    assert asked.retention().compacted is False
