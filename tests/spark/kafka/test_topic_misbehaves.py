"""Topics, brokers and records as nobody wants them."""

from __future__ import annotations

import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from airflow_backfill.builds.ordering import ordered
from airflow_backfill.core.errors import SourceReplaced, SourceUnavailable, Undecodable, VerificationFailed
from airflow_backfill.core.kafka.offsets import MAX
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.core.values.round_size import RoundSize
from airflow_backfill.spark.kafka.reader_options import kafka_options
from airflow_backfill.spark.session.failure import coded
from demo.kafka.broker import Broker, java_command
from demo.kafka.topic import Record, Topic
from tests.spark.kafka.topics import PLACES, Landing, MakeBuild, TopicBuild, everything, numbered

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("connection")]

ANY_TIME = {f"message.timestamp.{side}.max.ms": str(MAX) for side in ("before", "after")}
LENGTHS = ["partition", "offset", "length(value) AS bytes"]
MIB = 1 << 20


def finished(build: TopicBuild, landing: Landing | None = None) -> TopicBuild:
    build.snapshot()
    if landing is not None:
        landing.land_all()
    build.complete()
    return build


@pytest.mark.parametrize("at", [-1, *(pytest.param(at, marks=pytest.mark.soak) for at in (-6_795_364_578_871, 10**15))])
def test_records_of_a_time_that_is_none(topic: Topic, make_build: MakeBuild, at: int) -> None:
    """No time at all; a client's zero, which is before 1970; microseconds that were taken for milliseconds."""
    topic.create(config=ANY_TIME)
    topic.send([Record(b"v%d" % n, timestamp=at if n else 0) for n in range(3)])
    assert topic.records()[1].timestamp()[1] == at
    select = [*PLACES, "unix_millis(timestamp) AS at"]
    build = make_build(source=None, select=select)
    build.size = RoundSize(rows=2)
    build.read()
    assert [row[:3] for row in build.content()] == everything(topic)
    assert [row[3] for row in build.content()][1:] == [at, at]


def test_a_time_that_spark_cannot_represent_is_named(spark: SparkSession, topic: Topic, make_build: MakeBuild) -> None:
    """Nanoseconds that were taken for milliseconds. Once the record is deleted the build goes on without it."""
    topic.create(config=ANY_TIME)
    topic.send([Record(b"v0"), Record(b"v1", timestamp=10**18), Record(b"v2")])
    build = make_build(source=None)
    build.plan()
    with pytest.raises(Undecodable, match=r"that Spark cannot represent.*table-backfill skip") as raised:
        build.snapshot()
    assert build.content() == []
    if spark.version >= "4.2":
        assert raised.value.data["sample"][0]["offset"] == 1
    topic.truncate(2)
    ordered(build.target, Command(Verb.SKIP))
    build.snapshot()
    assert build.content() == [(0, 2, "v2")]


def test_records_that_do_not_come_in_time_may_come_later(spark: SparkSession, topic: Topic) -> None:
    topic.create()
    topic.send(numbered(2))
    options = kafka_options({"bootstrap.servers": topic.servers})
    reader = spark.read.format("kafka").options(**options).option("kafkaConsumer.pollTimeoutMs", "1000")
    reader = reader.option("subscribe", topic.name).option("endingOffsets", f'{{"{topic.name}": {{"0": 9}}}}')
    with pytest.raises(Exception) as raised:
        reader.load().collect()
    late = coded(raised.value)
    assert isinstance(late, SourceUnavailable) and late.retry and "in time" in late.message


@pytest.mark.soak
@pytest.mark.parametrize("regrown", [False, True])
def test_a_leader_that_has_lost_the_end_of_the_log_is_noticed(
    topic: Topic, landing: Landing, make_build: MakeBuild, broker: Broker, regrown: bool
) -> None:
    """As after an unclean election. If the log has grown past its former end meanwhile, the proof tells."""
    topic.create()
    for n in range(30):
        topic.send(numbered(1, first=n))
    landing.skip({0: 28})
    build = make_build()
    build.size = RoundSize(rows=8)
    build.plan()
    build.first_rounds(2)
    _cut(broker, topic, 12)
    if regrown:
        topic.send(numbered(30, first=100))
    landing.land_all()
    with pytest.raises(VerificationFailed if regrown else SourceReplaced) as noticed:
        finished(build)
    assert regrown or noticed.value.data["end"] == 12


@pytest.mark.soak
def test_a_consumer_quota_and_a_broker_that_dies_in_the_middle_of_a_round(
    topic: Topic, make_build: MakeBuild, broker: Broker
) -> None:
    topic.create(partitions=2)
    topic.send([Record(b"x" * 100_000, partition=n % 2) for n in range(100)])
    build = make_build(source=None, select=LENGTHS)
    build.plan()

    def restart() -> None:
        time.sleep(4)  # of the 25 seconds that the quota allows for the round
        broker.kill()
        broker.start()

    with _quota(topic, 400_000):
        restarting = Thread(target=restart)
        restarting.start()
        finished(build)
        restarting.join()
    assert build.content() == [(n % 2, n // 2, 100_000) for n in sorted(range(100), key=lambda n: (n % 2, n))]


@pytest.mark.soak
def test_large_records_of_every_codec(topic: Topic, landing: Landing, make_build: MakeBuild) -> None:
    """Records of 12 MiB, larger than what the reader asks a partition for at once."""
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    topic.create(partitions=len(codecs), config={"max.message.bytes": str(24 * MIB)})
    for n, codec in enumerate(codecs):
        settings = {"bootstrap.servers": topic.servers, "compression.type": codec, "message.max.bytes": 24 * MIB}
        producer = Producer(settings)
        for value in (*(b"v%d" % i * 1000 for i in range(30)), bytes(range(256)) * (12 * MIB // 256)):
            producer.produce(topic.name, value, partition=n)
        assert producer.flush(60) == 0
    build = make_build(select=LENGTHS)
    build.size = RoundSize(rows=70)
    build.plan()
    lengths = [(one.partition(), one.offset(), len(one.value())) for n in range(5) for one in topic.records(n)]
    assert finished(build, landing).content() == sorted(lengths)


@pytest.mark.soak
@pytest.mark.parametrize("keyed", [False, True])
def test_a_topic_of_300_partitions(topic: Topic, landing: Landing, make_build: MakeBuild, keyed: bool) -> None:
    topic.create(partitions=300)
    topic.send(Record(b"v%d" % i, b"%d-%d" % (n, i % 2), n) for n in range(300) for i in range(4))
    landing.land({n: 2 for n in range(0, 300, 2)})
    more: dict[str, Any] = {"key": ["key"], "select": ["key", "value"]} if keyed else {}
    build = make_build(topic={"key": "string", "value": "string"}, **more)
    build.plan()
    last = sorted((f"{n}-{i % 2}", f"v{i}") for n in range(300) for i in (2, 3))
    assert finished(build, landing).content() == (last if keyed else everything(topic))


@contextmanager
def _quota(topic: Topic, rate: int) -> Iterator[None]:
    """Consumers get so many bytes per second while the block runs."""

    def alter(*how: str) -> None:
        words = ["--bootstrap-server", topic.servers, "--alter", *how, "--entity-type", "clients", "--entity-default"]
        subprocess.run(java_command("kafka.admin.ConfigCommand", *words), check=True, capture_output=True)

    alter("--add-config", f"consumer_byte_rate={rate}")
    try:
        yield
    finally:
        alter("--delete-config", "consumer_byte_rate")


def _cut(broker: Broker, topic: Topic, end: int) -> None:
    """Restart the broker without the batches of partition 0 from an offset on."""
    broker.stop()
    data = broker.directory / "data"
    folder = data / f"{topic.name}-0"
    (segment,) = folder.glob("*.log")
    log, at = segment.read_bytes(), 0
    while (batch := struct.unpack_from(">qi", log, at))[0] < end:
        at += 12 + batch[1]
    segment.write_bytes(log[:at])
    # The broker believes these rather than the log.
    beside = (data / ".kafka_cleanshutdown", *data.glob("*-offset-checkpoint"), *folder.glob("*.*index"))
    for file in (*beside, *folder.glob("*.snapshot")):
        file.unlink(missing_ok=True)
    broker.start()
    topic._until_partitions(1)
    assert topic.bounds() == (0, end)
