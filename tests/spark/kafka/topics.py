"""Topics and what lands of them, for the tests: rows come from a client of its own, and are written without Spark."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import Message
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from airflow_backfill.core.model.spec import BackfillSpec
from demo.kafka.topic import Record, Topic
from demo.reading import by_delta_rs
from tests.spark.build import Build

SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)
PLACES = ["partition", "offset", "string(value) AS value"]
"""What ``everything`` says of a record."""


class Landing:
    """A landing table of one topic, and an ingestion that lands what it is told to; what was aborted, too, unless it
    reads ``committed`` records only.
    """

    def __init__(self, topic: Topic, table: Path, *, committed: bool = True) -> None:
        self.topic, self.table, self.committed = topic, str(table), committed
        self.landed: dict[int, int] = {}
        """By partition: the next offset to land."""
        write_deltalake(self.table, SCHEMA.empty_table())

    def land(self, upto: dict[int, int]) -> None:
        """Land every record of these partitions below an offset that has not landed yet, in one commit."""
        rows = []
        for partition, stop in upto.items():
            start = self.landed.get(partition, 0)
            if start < stop:
                found = self.topic.records(partition, first=start, committed=self.committed)
                rows += [row(message) for message in found if start <= message.offset() < stop]
                self.landed[partition] = stop
        self.append(rows)

    def land_all(self) -> None:
        partitions = self.topic.partitions()
        self.land({partition: self.topic.bounds(partition)[1] for partition in partitions})

    def skip(self, upto: dict[int, int]) -> None:
        """The ingestion began after these offsets."""
        self.landed |= upto

    def delete(self, where: str) -> None:
        """The table's owner deletes rows."""
        DeltaTable(self.table).delete(where)

    def append(self, rows: list[dict[str, Any]]) -> None:
        write_deltalake(self.table, pa.Table.from_pylist(rows, SCHEMA), mode="append", schema_mode="merge")


def row(message: Message) -> dict[str, Any]:
    """A record as it lands."""
    _, at = message.timestamp()
    return {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": datetime.fromtimestamp(at / 1000, tz=timezone.utc),
        "key": message.key(),
        "value": message.value(),
        "headers": [{"key": key, "value": value} for key, value in message.headers() or []] or None,
    }


class TopicBuild(Build):
    """A build of a topic's history and of what lands later; by default of the ``PLACES`` of its records."""

    def __init__(self, spark: SparkSession, landing: Landing, target: Path, lanes: int = 1, **spec: Any) -> None:
        super().__init__(_Nowhere(spark, landing.table), target, lanes)  # type: ignore[arg-type]
        topic = {"name": landing.topic.name, **spec.pop("topic", {})}
        given = {"name": "build", "source": landing.table, "target": self.target, "strategy": "source", "topic": topic}
        asked = {"select": PLACES, **given, **spec}
        self.spec = BackfillSpec.parse({name: value for name, value in asked.items() if value is not None})

    def content(self) -> list[tuple[Any, ...]]:
        return sorted(tuple(found.values()) for found in by_delta_rs(Path(self.target)))


MakeBuild = Callable[..., TopicBuild]


class _Nowhere:
    """In place of a source table: ``Build`` wants one."""

    key = "offset"

    def __init__(self, spark: SparkSession, path: str) -> None:
        self.spark, self.path = spark, path


def numbered(count: int, partition: int = 0, first: int = 0) -> list[Record]:
    """Records whose keys and values say which they are."""
    numbers = range(first, first + count)
    return [Record(b"v%d" % n, key=b"k%d" % n, partition=partition, headers=[("n", b"%d" % n)]) for n in numbers]


def everything(topic: Topic) -> list[tuple[int, int, str]]:
    """What an independent client reads of the topic."""
    return sorted(
        (message.partition(), message.offset(), message.value().decode())
        for partition in topic.partitions()
        for message in topic.records(partition)
    )
