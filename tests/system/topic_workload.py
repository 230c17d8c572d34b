"""A topic that lives while it is read: a producer, an ingestion that lands what comes, and what a client of its own
says that a target must hold.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from threading import Event, Thread
from typing import Any

from confluent_kafka import Message
from deltalake import DeltaTable
from pyarrow.dataset import dataset

from demo.kafka.broker import Broker
from demo.kafka.topic import Record, Topic
from tests.kafka.conftest import LOGIN
from tests.spark.kafka.decoder_files import java_decoder, package
from tests.spark.kafka.topics import Landing

PARTITIONS = 3
HISTORY = 6_000
"""Records that are there at first."""
AT_A_TIME = 20
"""Records that come together."""
INTERVAL = 0.5
"""Seconds between two sendings; after every second one, what has come lands."""

ROW = ["partition", "offset", "length", "id", "page"]
PLACE = ["partition", "offset"]
SELECT = ["partition", "offset", "key AS length", "id", "upper(page) AS page"]
WHERE = "id IS NULL OR id % 5 <> 0"
DECODING = {"key": "decoder:length", "value": "decoder:clicks"}
_DECODERS = """
import json

from airflow_backfill.spark.kafka.decoders import JavaDecoder, RecordDecoder


def click(record):
    return json.loads(record)


clicks = RecordDecoder(click, "id BIGINT, page STRING", version="1")
length = JavaDecoder("Length", "BIGINT", version="1")
"""


def python_decoders(folder: Path) -> Path:
    """A zip with what the spec's decoding names."""
    return package(folder, "acme", "clicks = acme:clicks\nlength = acme:length", _DECODERS)


def record(number: int) -> Record:
    """Most can be decoded, one in five of them is not wanted, and some are tombstones."""
    key, value = b"k" * (number % 7 + 1), json.dumps({"id": number, "page": f"/p{number % 100}"}).encode()
    if number % 37 == 7:
        value = value[:-1]
    if number % 41 == 11:
        key = b""
    return Record(None if number % 43 == 3 else value, key, number % PARTITIONS)


@dataclass
class Wanted:
    """What a build has to make of some records."""

    rows: Counter[tuple[Any, ...]] = field(default_factory=Counter)
    dead: Counter[tuple[int, int]] = field(default_factory=Counter)
    filtered: int = 0

    def add(self, message: Message) -> None:
        """The same decoding, selection and filter in plain Python."""
        place, key, value = (message.partition(), message.offset()), message.key(), message.value()
        try:
            click = {"id": None, "page": None} if value is None else json.loads(value)
        except ValueError:
            click = None
        if click is None or not key:
            self.dead[place] += 1
        elif click["id"] is not None and click["id"] % 5 == 0:
            self.filtered += 1
        else:
            page = click["page"] and click["page"].upper()
            self.rows[(*place, len(key), click["id"], page)] += 1


def shipped(folder: Path) -> dict[str, str]:
    """Settings by which an application gets the decoders that the workload's spec names."""
    return {"spark.jars": str(java_decoder(folder)), "spark.submit.pyFiles": str(python_decoders(folder))}


def connection(broker: Broker, password: str = LOGIN.password, *, trusting: bool = True) -> str:
    """How to reach a broker that asks for a password behind TLS."""
    said = {
        "bootstrap.servers": broker.sasl_tls_servers,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": LOGIN.user,
        "sasl.password": password,
    }
    return json.dumps({**said, "ssl.ca.pem": broker.certificate.read_text()} if trusting else said)


class TopicWorkload:
    """A topic with history, the end of which has landed, for a part of it from the start on."""

    def __init__(self, topic: Topic, table: Path) -> None:
        self.topic = topic
        self._numbers = count()
        topic.create(PARTITIONS)
        self.send(HISTORY)
        self.landing = Landing(topic, table)
        end = HISTORY // PARTITIONS
        self.landing.skip({0: end // 2, 1: end})
        self.landing.land({0: end - 100, 2: 50})

    def send(self, many: int) -> None:
        self.topic.send(record(next(self._numbers)) for _ in range(many))

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Producer and ingestion work, from before the first statement until after the last; then all has landed."""
        stop, errors = Event(), list[BaseException]()

        def work() -> None:
            try:
                for turn in count(1):
                    if stop.wait(INTERVAL):
                        return
                    self._turn(turn)
            except BaseException as error:
                errors.append(error)

        thread = Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
        assert not errors, errors
        self.landing.land_all()

    def _turn(self, turn: int) -> None:
        self.send(AT_A_TIME)
        if turn % 10 == 0:
            with self.topic.transaction([record(0)] * 5, commit=False):
                pass
        if turn % 2 == 0:
            self.landing.land_all()

    def spec(self, source: str, target: str, dead: str) -> str:
        """What a plan is told. ``source`` is where applications find the landing table."""
        topic = {"name": self.topic.name, **DECODING, "undecodable": f"dead_letters:{dead}"}
        tables = {"source": source, "target": target, "strategy": "source"}
        return json.dumps({"name": "clicks", **tables, "topic": topic, "select": SELECT, "where": WHERE})

    def head(self) -> int:
        """The newest version of the landing table."""
        return DeltaTable(self.landing.table).version()

    def wanted(self, upto: Mapping[int, int] | None = None) -> Wanted:
        """What the target has to hold, of all records or of those up to an offset of their partition."""
        found = Wanted()
        for partition in self.topic.partitions():
            for message in self.topic.records(partition):
                if upto is None or message.offset() <= upto[partition]:
                    found.add(message)
        return found


def rows(table: str, columns: list[str], version: int | None = None) -> Counter[tuple[Any, ...]]:
    """What the files of a table hold to which rows are only added: it may have deletion vectors, but there are none."""
    files = DeltaTable(table, version=version).file_uris()
    found = dataset(files, format="parquet").to_table(columns).to_pylist()
    return Counter(tuple(row[name] for name in columns) for row in found)
