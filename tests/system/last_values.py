"""A small topic whose records are the changes of keys, and the oracle of what its target must hold."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from demo.kafka.topic import Record, Topic
from tests.spark.kafka.topics import Landing

HISTORY = 4_000
"""Records that are there at first."""


@dataclass(frozen=True)
class LastValues:
    """A topic of which a target wants the last value of each key; the second half of its history has landed."""

    topic: Topic
    landing: Landing
    target: str

    @staticmethod
    def make(topic: Topic, folder: Path) -> LastValues:
        topic.create(2)
        topic.send(map(order, range(HISTORY)))
        landing = Landing(topic, folder / "landing")
        landing.skip({0: HISTORY // 4, 1: HISTORY // 4})
        landing.land_all()
        return LastValues(topic, landing, str(folder / "target"))

    @property
    def plan(self) -> tuple[str, str]:
        spec = {
            "name": "orders",
            "source": self.landing.table,
            "target": self.target,
            "strategy": "source",
            "topic": {"name": self.topic.name, "key": "json:id BIGINT", "value": "json:paid BIGINT"},
            "key": ["id"],
            "select": ["id", "paid"],
        }
        return "--spec", json.dumps(spec)

    def check(self, spark: SparkSession) -> None:
        """The target is what a client of its own reads, folded in plain Python."""
        wanted: dict[int, int] = {}
        for partition in self.topic.partitions():
            for message in self.topic.records(partition):
                number = json.loads(message.key())["id"]
                wanted.pop(number, None)
                if message.value() is not None:
                    wanted[number] = json.loads(message.value())["paid"]
        found = spark.read.format("delta").load(self.target).collect()
        assert sorted(map(tuple, found)) == sorted(wanted.items())


def order(number: int) -> Record:
    """Every order is paid again and again, and some are deleted."""
    key, value = {"id": number % 300}, {"paid": number}
    return Record(None if number % 7 == 0 else json.dumps(value).encode(), json.dumps(key).encode(), number % 2)
