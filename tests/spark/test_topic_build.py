"""Whole builds of a topic's history and of what lands later, with a real broker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_backfill.core.kafka.connection import VARIABLE
from airflow_backfill.core.round_size import RoundSize
from demo.kafka.broker import Broker
from demo.kafka.topic import Topic
from tests.spark.topics import Landing, TopicBuild, numbered

pytestmark = pytest.mark.spark

PLACES = ["partition", "offset", "string(value) AS value"]


@pytest.fixture(autouse=True)
def _connection(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, json.dumps({"bootstrap.servers": broker.servers}))


def everything(topic: Topic) -> list[tuple[int, int, str]]:
    """What an independent client reads of the topic."""
    return sorted(
        (message.partition(), message.offset(), message.value().decode())
        for partition in topic.partitions()
        for message in topic.records(partition)
    )


def test_history_and_landing_meet_at_the_seam(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    topic.create(partitions=3)
    landing = Landing(topic, tmp_path / "landing")
    for partition in range(3):
        topic.send(numbered(40, partition))
    landing.skip({0: 30, 1: 40, 2: 0})
    landing.land({0: 35, 2: 10})
    build = TopicBuild(spark, landing, tmp_path / "target", select=PLACES)
    build.size = RoundSize(rows=25)
    state = build.plan()
    assert [split.target for split in state.topic.values()] == [39, 39, 39]
    build.run(_first_rounds(build, 2))
    for partition in range(3):
        topic.send(numbered(5, partition, first=40))
    landing.land({0: 43, 1: 42, 2: 20})
    state = build.snapshot()
    assert state.read
    landing.land_all()
    for phase in (build.consume_log, build.catch_up, build.verify, build.finish):
        state = phase()
    assert build.content() == everything(topic)
    assert state.certificate is not None and state.certificate.rows == 135
    topic.send(numbered(3, 1, first=45))
    landing.land_all()
    build.upstream()
    assert build.content() == everything(topic)


def _first_rounds(build: TopicBuild, rounds: int) -> Any:
    from dataclasses import dataclass

    from airflow_backfill.core.step import Done
    from airflow_backfill.core.task import SnapshotTask

    @dataclass(frozen=True)
    class Some(SnapshotTask):
        """A snapshot that ends early."""

        def step(self, state: Any, seen: Any) -> Any:
            done = sum(record.event.value == "offsets" for record in build.records())
            return Done() if done >= rounds else super().step(state, seen)

    return Some(0, 1, build.size)
