"""Operations on a topic: records, transactions, compaction, deletion. Each call returns when its work is done."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

TIMEOUT_SECONDS = 30.0
"""How long a request or a compaction may take."""

QUEUE_RECORDS = 50_000
"""Maximum records in flight. The client refuses more than twice as many."""

_NOT_YET_LED = (
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
    # The client's own codes for an unknown partition or topic.
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._UNKNOWN_TOPIC,
)
"""Errors that Kafka's own clients retry."""

COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "segment.ms": "10"}
"""The configuration of a topic for ``Topic.compact``."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record to send. Without a value it is a tombstone."""

    value: bytes | None
    key: bytes | None = None
    partition: int = 0
    timestamp: int = 0
    """Milliseconds since 1970; 0: now."""
    headers: Sequence[tuple[str, bytes | None]] = ()


class Topic:
    """The topic ``name`` of a broker without a login. KafkaException if the broker refuses a request."""

    def __init__(self, servers: str, name: str) -> None:
        self.servers = servers
        self.name = name
        self._admin = AdminClient({"bootstrap.servers": servers})

    def create(self, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        new = NewTopic(self.name, partitions, 1, config=dict(config or {}))
        _done(self._admin.create_topics([new]))
        self._until_partitions(partitions)

    def grow(self, partitions: int) -> None:
        """Add partitions until the topic has ``partitions``."""
        _done(self._admin.create_partitions([NewPartitions(self.name, partitions)]))
        self._until_partitions(partitions)

    def configure(self, config: Mapping[str, str]) -> None:
        """Change the topic's configuration."""
        kind = AlterConfigOpType.SET
        entries = [ConfigEntry(name, value, incremental_operation=kind) for name, value in config.items()]
        resource = ConfigResource(ConfigResource.Type.TOPIC, self.name, incremental_configs=entries)
        _done(self._admin.incremental_alter_configs([resource]))

    def partitions(self) -> list[int]:
        return sorted(self._admin.list_topics(self.name, timeout=TIMEOUT_SECONDS).topics[self.name].partitions)

    def delete(self) -> None:
        _done(self._admin.delete_topics([self.name]))
        self._until_partitions(0)

    def truncate(self, before: int, partition: int = 0) -> None:
        """Delete the records below an offset."""
        _done(self._admin.delete_records([TopicPartition(self.name, partition, before)]))

    def bounds(self, partition: int = 0, *, committed: bool = True) -> tuple[int, int]:
        """The log start offset, and the end: with ``committed`` the last stable offset, else the next offset."""
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        found = []
        for which in (OffsetSpec.earliest(), OffsetSpec.latest()):
            asked = {TopicPartition(self.name, partition): which}
            (answer,) = _done(self._admin.list_offsets(asked, isolation_level=level))
            found.append(answer.offset)
        return found[0], found[1]

    def send(self, records: Iterable[Record]) -> None:
        """Append the records in order."""
        self._send(self._producer, records)

    @contextmanager
    def transaction(self, records: Iterable[Record], *, commit: bool = True) -> Iterator[None]:
        """Send the records in a transaction that is open while the block runs, and then commit or abort it."""
        # The client retries while the coordinator is busy; log_level hides its messages.
        settings = {
            "bootstrap.servers": self.servers,
            "transactional.id": uuid.uuid4().hex,
            # The default is one minute, and a block may take longer on a busy machine.
            "transaction.timeout.ms": 600_000,
            "linger.ms": 0,
            "log_level": 3,
        }
        producer = Producer(settings)
        producer.init_transactions(TIMEOUT_SECONDS)
        producer.begin_transaction()
        self._send(producer, records)
        try:
            yield
        finally:
            (producer.commit_transaction if commit else producer.abort_transaction)(TIMEOUT_SECONDS)
            # The broker answers before it has written the markers. A new producer can start only after that.
            Producer(settings).init_transactions(TIMEOUT_SECONDS)

    def records(self, partition: int = 0, *, first: int = OFFSET_BEGINNING, committed: bool = True) -> list[Message]:
        """The records of a partition from ``first`` on, or only the ``committed`` ones."""
        settings = {
            "bootstrap.servers": self.servers,
            "group.id": "none",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",  # if ``first`` is deleted
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 50,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
        }
        with closing(Consumer(settings)) as consumer:
            consumer.assign([TopicPartition(self.name, partition, first)])
            return list(_until_end(consumer))

    def compact(self, partition: int = 0) -> None:
        """Keep only the newest record of each key. Appends one record, which closes the segment before it.

        Records from the first open transaction on are not compacted.
        """
        after = int(time.time() * 1000) + 1000
        self.send([Record(b"", key=uuid.uuid4().bytes, partition=partition, timestamp=after)])

        def compacted() -> bool:
            keys = [record.key() for record in self.records(partition)]
            return len(set(keys)) == len(keys)

        _until(compacted, f"topic {self.name} is not compacted")

    @cached_property
    def _producer(self) -> Producer:
        return Producer({"bootstrap.servers": self.servers, "linger.ms": 0})

    def _send(self, producer: Producer, records: Iterable[Record]) -> None:
        refused: list[KafkaError] = []
        for record in records:
            while len(producer) >= QUEUE_RECORDS:
                producer.poll(1)
            producer.produce(
                self.name,
                record.value,
                record.key,
                record.partition,
                on_delivery=lambda error, _: refused.append(error) if error else None,
                timestamp=record.timestamp,
                headers=list(record.headers),
            )
            producer.poll(0)
        if producer.flush(TIMEOUT_SECONDS) or refused:
            raise KafkaException(*refused[:1])

    def _until_partitions(self, count: int) -> None:
        # An existing producer would notice new partitions late.
        self.__dict__.pop("_producer", None)

        def known() -> bool:
            found = self._admin.list_topics(timeout=TIMEOUT_SECONDS).topics.get(self.name)
            return len(found.partitions if found else ()) == count and self._is_led(count)

        _until(known, f"topic {self.name} does not have {count} partitions")

    def _is_led(self, partitions: int) -> bool:
        """Whether the broker leads all partitions. It lists new ones a moment earlier."""
        asked = {TopicPartition(self.name, partition): OffsetSpec.latest() for partition in range(partitions)}
        try:
            _done(self._admin.list_offsets(asked) if asked else {})
        except KafkaException as refused:
            if refused.args[0].code() in _NOT_YET_LED:
                return False
            raise
        return True


def _done(futures: Mapping[Any, Future[Any]]) -> list[Any]:
    return [future.result(TIMEOUT_SECONDS) for future in futures.values()]


def _until_end(consumer: Consumer) -> Iterator[Message]:
    while (message := consumer.poll(TIMEOUT_SECONDS)) is not None:
        error = message.error()
        if error is None:
            yield message
        elif error.code() == KafkaError._PARTITION_EOF:
            return
        else:
            raise KafkaException(error)
    raise TimeoutError(f"the broker returned no record for {TIMEOUT_SECONDS:.0f} s; see broker.log in its directory")


def _until(condition: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{otherwise} after {TIMEOUT_SECONDS:.0f} s; see broker.log in its directory")
        time.sleep(0.05)
