"""Keys in several partitions, with a column that says which of their records is the last one."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from airflow_backfill.core.errors import InvalidSpec, MemoryLost
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.round_size import RoundSize
from airflow_backfill.ledger.control_folder import memory_beside
from demo.kafka.topic import Record, Topic
from tests.spark.kafka.topics import Landing, MakeBuild, TopicBuild

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("connection")]

START = int(time.time() * 1000) - 3_600_000
"""Milliseconds: an hour ago, so that no broker takes its records for outdated."""
SELECT = ["id", "value AS name", "timestamp", "partition", "offset"]


def record(partition: int, key: int, at: int, name: str | None) -> Record:
    """``at`` in seconds."""
    value = None if name is None else name.encode()
    return Record(value, b'{"id": %d}' % key, partition, timestamp=START + at * 1000)


def ordered(make_build: MakeBuild, **spec: Any) -> TopicBuild:
    topic = {"key": "json:id BIGINT", "value": "string", "order": "timestamp"}
    return make_build(**{"key": ["id"], "select": SELECT, "topic": topic, **spec})


def names(build: TopicBuild) -> dict[int, str]:
    return {row["id"]: row["name"] for row in build.rows().collect()}


def folded(topic: Topic, without: str | None = None) -> dict[int, str]:
    """What a client of its own makes of the topic: the greatest (timestamp, partition, offset) of a key is the last."""
    last: dict[int, tuple[Any, str | None]] = {}
    for partition in topic.partitions():
        for message in topic.records(partition):
            key = json.loads(message.key())["id"]
            place = (message.timestamp()[1], partition, message.offset())
            if key not in last or place > last[key][0]:
                last[key] = (place, None if message.value() is None else message.value().decode())
    return {key: name for key, (_, name) in last.items() if name not in (None, without)}


def finished(build: TopicBuild, landing: Landing) -> BuildState:
    build.snapshot()
    landing.land_all()
    return build.complete()


@pytest.mark.soak
def test_rounds_take_keys_in_the_order_of_a_column(topic: Topic, landing: Landing, make_build: MakeBuild) -> None:
    topic.create(partitions=2)
    # A round reads one record of each partition: what is beside each other here is in one round.
    first = [(1, 10, "new"), (2, 30, "stays"), (3, 20, None), (4, 50, "of 1"), (5, 10, "gone"), (6, 10, "back")]
    second = [(3, 10, "old"), (1, 5, "old"), (2, 20, None), (5, 20, None), (4, 50, "of 0"), (6, 5, None)]
    topic.send(record(1, *one) for one in first)
    topic.send(record(0, *one) for one in second)
    landing.land_all()
    build = ordered(make_build)
    build.size = RoundSize(rows=1)
    build.read()
    expected = {1: "new", 2: "stays", 4: "of 1", 6: "back"}
    assert names(build) == expected == folded(topic)
    topic.grow(3)
    topic.send([record(2, 1, 7, "older"), record(2, 3, 15, "older"), record(2, 2, 40, "newest")])
    finished(build, landing)
    assert names(build) == {**expected, 2: "newest"} == folded(topic)
    topic.send([record(2, 4, 60, None), record(0, 1, 8, "older"), record(1, 6, 70, "last")])
    landing.land_all()
    build.upstream()
    assert names(build) == {1: "new", 2: "newest", 6: "last"} == folded(topic)


@pytest.mark.soak
def test_what_was_deleted_stays_deleted_after_the_hand_off(
    topic: Topic, landing: Landing, make_build: MakeBuild, tmp_path: Path
) -> None:
    """By a tombstone or by the filter, in the history or in an earlier run: an older record of another partition lands
    later, and changes nothing.
    """
    topic.create(partitions=2)
    topic.send([record(0, 1, 20, None), record(0, 2, 20, "draft"), record(0, 3, 20, "stays")])
    landing.land_all()
    build = ordered(make_build, where="value <> 'draft'")
    build.plan()
    finished(build, landing)
    for more in (
        [record(1, 1, 10, "older"), record(1, 2, 10, "older"), record(0, 3, 30, None), record(0, 4, 30, "draft")],
        [record(1, 3, 10, "older"), record(1, 4, 10, "older"), record(1, 1, 15, "older")],
        [record(1, 3, 29, "older"), record(0, 2, 40, "back")],
        [record(1, 2, 30, None), record(1, 4, 29, "older")],
    ):
        topic.send(more)
        landing.land_all()
        build.upstream()
        assert names(build) == folded(topic, without="draft")
    memory = Path(memory_beside(build.target, build.reader.state().plan.build))
    memory.rename(tmp_path / "elsewhere")
    topic.send([record(1, 4, 28, "older")])
    landing.land_all()
    with pytest.raises(MemoryLost, match="put the folder back"):
        build.upstream()
    (tmp_path / "elsewhere").rename(memory)
    build.upstream()
    assert names(build) == folded(topic, without="draft")


@pytest.mark.soak
@pytest.mark.parametrize("seed", [1, 2])
def test_any_history_comes_to_its_last_values(topic: Topic, landing: Landing, make_build: MakeBuild, seed: int) -> None:
    rng = random.Random(seed)
    topic.create(partitions=3)

    def some(count: int) -> Iterable[Record]:
        for n in range(count):
            yield record(rng.randrange(3), rng.randrange(6), rng.randrange(20), rng.choice([None, f"{n}"]))

    topic.send(some(30))
    landing.skip({0: 4, 2: 3})
    landing.land({0: 6, 1: 5})
    build = ordered(make_build)
    build.size = RoundSize(rows=15)
    build.plan()
    topic.send(some(6))
    state = finished(build, landing)
    assert names(build) == folded(topic)
    assert Path(memory_beside(build.target, state.plan.build)).is_dir()


def test_what_an_ordered_build_needs_is_said_by_its_plan(topic: Topic, make_build: MakeBuild, tmp_path: Path) -> None:
    topic.create()
    with pytest.raises(InvalidSpec, match="add 'partition' to select"):
        ordered(make_build, select=["id", "value", "timestamp", "offset"]).plan()
    with pytest.raises(InvalidSpec, match="in one lane"):
        ordered(make_build, lanes=2).plan()
    assert not (tmp_path / "target").exists()
