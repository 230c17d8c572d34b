"""Asks the brokers about a topic: its id, and the start and end of each partition's log for a reader of committed
records.

Uses Kafka's own client, which comes with Spark's reader. A connection may hold secrets: they are neither logged nor
part of an error.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from airflow_backfill.core.kafka.opening import Log
from airflow_backfill.core.kafka.topic_retention import TopicRetention
from airflow_backfill.core.state.effect import Topic
from airflow_backfill.ledger.java_error import java_errors
from airflow_backfill.spark.session.jars import check_kafka_jars
from airflow_backfill.spark.session.kafka_failure import DESCRIBE, READ, kafka_error, kinds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIMEOUTS = {"request.timeout.ms": "10000", "default.api.timeout.ms": "30000"}
"""How long the client waits for an answer."""
AGE_SECONDS = 1.0
"""How long the client waits for the first unread records, to learn how old they are."""
FIRST_RECORD = {
    **dict.fromkeys(
        ("key.deserializer", "value.deserializer"), "org.apache.kafka.common.serialization.ByteArrayDeserializer"
    ),
    "isolation.level": "read_committed",
    "enable.auto.commit": "false",
    "auto.offset.reset": "earliest",
    "fetch.max.wait.ms": "50",
    # A broker sends one batch at least.
    "max.partition.fetch.bytes": "1",
}
NONE: Mapping[int, int] = {}


class Broker:
    """The brokers of a connection, asked about one topic. SparkIncomplete without the jars for Kafka."""

    def __init__(self, spark: SparkSession, connection: Mapping[str, str], topic: str) -> None:
        check_kafka_jars(spark)
        self._jvm: Any = spark.sparkContext._jvm
        self._connection = connection
        self._topic = topic

    def ask(self, unread: Mapping[int, int] = NONE) -> Topic:
        """The topic now; and, of its first unread records, when they were written and how long they are kept.
        ``unread``: their offsets by partition.

        Raises TopicMissing, KafkaRefused, or SourceUnavailable if no broker answers.
        """
        with _named(self._topic), self._client() as admin:
            names = self._jvm.java.util.List.of(self._topic)
            described = admin.describeTopics(names).allTopicNames().get().get(self._topic)
            partitions = [one.partition() for one in described.partitions()]
            starts = self._offsets(admin, partitions, self._jvm.org.apache.kafka.clients.admin.OffsetSpec.earliest())
            ends = self._offsets(admin, partitions, self._jvm.org.apache.kafka.clients.admin.OffsetSpec.latest())
            logs = {n: Log(starts[n], max(ends[n], starts[n])) for n in partitions}
            some = {n: offset for n, offset in unread.items() if n in logs and offset < logs[n].end}
            kept = self._retention(admin).milliseconds if some else None
        oldest = {}
        if some:
            with _named(self._topic, READ):
                oldest = self._oldest(some, logs)
        return Topic(described.topicId().toString(), logs, oldest, kept)

    def _oldest(self, unread: Mapping[int, int], logs: Mapping[int, Log]) -> dict[int, int]:
        """By partition: when the first record from an offset on was written, if the brokers answer in time."""
        found: dict[int, int] = {}
        kafka = self._jvm.org.apache.kafka
        places = {n: kafka.common.TopicPartition(self._topic, n) for n in unread}
        deadline = time.monotonic() + AGE_SECONDS
        consumer = kafka.clients.consumer.KafkaConsumer(self._settings(FIRST_RECORD))
        try:
            consumer.assign(self._jvm.java.util.ArrayList(list(places.values())))
            for n, place in places.items():
                consumer.seek(place, unread[n])
            while places and time.monotonic() < deadline:
                records = consumer.poll(self._jvm.java.time.Duration.ofMillis(100))
                for n, place in list(places.items()):
                    of_place = records.records(place)
                    known = not of_place.isEmpty()
                    # A client may write a time before 1970, or none (-1).
                    if known and of_place.get(0).timestamp() >= 0:
                        found[n] = of_place.get(0).timestamp()
                    if known or consumer.position(place) >= logs[n].end:
                        consumer.pause(self._jvm.java.util.List.of(places.pop(n)))
        finally:
            consumer.close(self._jvm.java.time.Duration.ofSeconds(1))
        return found

    def since(self, partitions: Mapping[int, Log], at: int) -> dict[int, int]:
        """By partition: the first offset whose record is at ``at`` (milliseconds since 1970) or later; else the end."""
        spec = self._jvm.org.apache.kafka.clients.admin.OffsetSpec.forTimestamp(at)
        with _named(self._topic), self._client() as admin:
            found = self._offsets(admin, list(partitions), spec)
        return {n: log.end if found[n] < 0 else found[n] for n, log in partitions.items()}

    def retention(self) -> TopicRetention:
        """The topic's retention; empty if the connection may not read the topic's configuration."""
        with _named(self._topic), self._client() as admin:
            return self._retention(admin)

    def _retention(self, admin: Any) -> TopicRetention:
        resource = self._jvm.org.apache.kafka.common.config.ConfigResource
        place = resource(resource.Type.TOPIC, self._topic)
        try:
            found = admin.describeConfigs(self._jvm.java.util.List.of(place)).all().get().get(place)
        except Py4JJavaError as error:
            if any("AuthorizationException" in kinds(thrown) for thrown in java_errors(error)):
                return TopicRetention()
            raise
        names = ("cleanup.policy", "retention.ms", "retention.bytes")
        return TopicRetention.of({name: str(found.get(name).value()) for name in names})

    def _offsets(self, admin: Any, partitions: list[int], spec: Any) -> dict[int, int]:
        kafka = self._jvm.org.apache.kafka
        places = {n: kafka.common.TopicPartition(self._topic, n) for n in partitions}
        asked = self._jvm.java.util.HashMap()
        for place in places.values():
            asked.put(place, spec)
        committed = kafka.clients.admin.ListOffsetsOptions(kafka.common.IsolationLevel.READ_COMMITTED)
        found = admin.listOffsets(asked, committed).all().get()
        return {n: found.get(place).offset() for n, place in places.items()}

    @contextmanager
    def _client(self) -> Iterator[Any]:
        admin = self._jvm.org.apache.kafka.clients.admin.AdminClient.create(self._settings(TIMEOUTS))
        try:
            yield admin
        finally:
            admin.close(self._jvm.java.time.Duration.ofSeconds(1))

    def _settings(self, ours: Mapping[str, str]) -> Any:
        settings = self._jvm.java.util.HashMap()
        for name, value in {**ours, **self._connection}.items():
            settings.put(name, value)
        return settings


@contextmanager
def _named(topic: str, right: str = DESCRIBE) -> Iterator[None]:
    """Raise the client's errors as coded errors. The client itself does not always name the topic."""
    try:
        yield
    except Py4JJavaError as error:
        raise kafka_error(error, topic, right) or error from None
