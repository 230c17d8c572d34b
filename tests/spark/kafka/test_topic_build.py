"""Whole builds of a topic's history and of what lands later, with a real broker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_backfill.core.errors import PartitionIncomplete
from airflow_backfill.core.kafka.state import Finished
from airflow_backfill.core.splits.partitions import splits_of
from airflow_backfill.core.values.round_size import RoundSize
from airflow_backfill.spark.run.landing_app import land
from airflow_backfill.spark.run.landing_app import parser as landing_parser
from airflow_backfill.spark.run.stream import follow
from demo.kafka.topic import COMPACTED, Record, Topic
from tests.spark.kafka.topics import PLACES, Landing, MakeBuild, everything, numbered

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("connection")]


def test_history_and_landing_meet_at_the_seam(topic: Topic, landing: Landing, make_build: MakeBuild) -> None:
    topic.create(partitions=3)
    for partition in range(3):
        topic.send(numbered(40, partition))
    landing.skip({0: 30, 1: 40, 2: 0})
    landing.land({0: 35, 2: 10})
    build = make_build()
    build.size = RoundSize(rows=25)
    state = build.plan()
    assert [split.target for split in splits_of(state.positions).values()] == [39, 39, 39]
    build.first_rounds(2)
    for partition in range(3):
        topic.send(numbered(5, partition, first=40))
    landing.land({0: 43, 1: 42, 2: 20})
    state = build.snapshot()
    assert state.read
    landing.land_all()
    state = build.complete()
    assert build.content() == everything(topic)
    assert state.certificate is not None and state.certificate.rows == 135
    topic.send(numbered(3, 1, first=45))
    landing.land_all()
    build.upstream()
    assert build.content() == everything(topic)


@pytest.mark.soak
def test_lanes_share_the_partitions_and_one_may_have_none(
    topic: Topic, landing: Landing, make_build: MakeBuild
) -> None:
    topic.create(partitions=2)
    for partition in range(2):
        topic.send(numbered(10, partition))
    landing.land_all()
    build = make_build(lanes=3)
    build.size = RoundSize(rows=4)
    state = build.hand_off()
    assert build.content() == everything(topic)
    assert state.certificate is not None and state.certificate.rows == 20
    assert [split.read for split in splits_of(state.positions).values()] == [10, 10]


def test_the_last_value_of_a_key_and_no_row_for_a_tombstone(
    topic: Topic, landing: Landing, make_build: MakeBuild
) -> None:
    topic.create(partitions=2)

    def order(number: int, partition: int, value: dict[str, Any] | None) -> Record:
        return Record(json.dumps(value).encode() if value else None, json.dumps({"id": number}).encode(), partition)

    topic.send([order(1, 0, {"paid": 1.5}), order(2, 1, {"paid": 2.5}), order(3, 0, {"paid": 3.5})])
    landing.land_all()
    build = make_build(
        key=["id"],
        select=["id", "paid * 2 AS twice"],
        where="paid > 0",
        topic={"key": "json:id BIGINT", "value": "json:paid DOUBLE"},
    )
    build.read()
    topic.send([order(1, 0, {"paid": 4.5}), order(2, 1, None), order(3, 0, {"paid": -1}), order(4, 1, {"paid": 1})])
    landing.land_all()
    state = build.prove()
    assert build.content() == [(1, 9.0), (4, 2.0)]
    build.finish()
    topic.send([order(2, 1, {"paid": 7}), order(1, 0, None)])
    landing.land_all()
    build.upstream()
    assert build.content() == [(2, 14.0), (4, 2.0)]
    assert state.certificate is not None and state.certificate.rows == 2


@pytest.mark.soak
def test_an_idle_partition_is_not_waited_for_if_the_ingestion_is_known(
    spark: SparkSession, topic: Topic, make_build: MakeBuild, tmp_path: Path
) -> None:
    """The ingestion began after all there is of partition 0: nothing of it will ever land."""
    topic.create(partitions=2)
    topic.send([*numbered(5), *numbered(5, 1)])
    table, notes = str(tmp_path / "landed"), str(tmp_path / "notes")

    def ingested() -> None:
        words = ["--topic", topic.name, "--table", table, "--checkpoint", notes]
        land(spark, {"bootstrap.servers": topic.servers}, landing_parser().parse_args(words))

    ingested()
    build = make_build(source=table, topic={"checkpoint": notes})
    build.plan()
    topic.send(numbered(1, 1, first=5))
    ingested()
    build.snapshot()
    state = build.complete()
    assert build.content() == everything(topic)
    assert [split.state for split in splits_of(state.positions).values()] == [Finished(), Finished()]
    topic.send(numbered(2, 0, first=5))
    ingested()
    build.upstream()
    assert build.content() == everything(topic)


@pytest.mark.soak
def test_a_landing_table_gets_a_column_and_maintenance(
    spark: SparkSession, topic: Topic, landing: Landing, make_build: MakeBuild
) -> None:
    """In the middle of the history, and under a follower. Its rows stay the records."""
    topic.create()
    topic.send(numbered(10))
    landing.land({0: 4})
    build, table = make_build(), f"delta.`{landing.table}`"
    build.size = RoundSize(rows=3)
    build.plan()
    build.first_rounds(1)
    spark.sql(f"ALTER TABLE {table} ADD COLUMN landed_at TIMESTAMP")
    landing.land_all()
    build.snapshot()
    build.complete()
    topic.send(numbered(2, first=10))
    spark.sql(f"ALTER TABLE {table} ADD COLUMN landed_by STRING")
    landing.land_all()
    spark.sql(f"OPTIMIZE {table}")
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES (note = 'x')")
    topic.send(numbered(1, first=12))
    landing.land_all()
    build.upstream()
    assert build.content() == everything(topic)


@pytest.mark.soak
def test_holes_are_no_records(topic: Topic, landing: Landing, make_build: MakeBuild) -> None:
    topic.create(config=COMPACTED)
    topic.send(numbered(5) + numbered(5))
    with topic.transaction(numbered(3, first=20), commit=False):
        pass
    topic.compact()
    with topic.transaction(numbered(2, first=30)):
        pass
    landing.skip({0: topic.bounds()[1]})
    build = make_build()
    build.size = RoundSize(rows=3)
    build.read()
    landing.landed[0] = 0
    landing.land_all()
    state = build.complete()
    assert build.content() == everything(topic)
    assert splits_of(state.positions)[0].read == len(everything(topic)) < topic.bounds()[1]


def test_an_open_transaction_is_waited_for(topic: Topic, landing: Landing, make_build: MakeBuild) -> None:
    topic.create()
    topic.send(numbered(3))
    with topic.transaction(numbered(2, first=3)):
        topic.send(numbered(2, first=5))
        build = make_build()
        assert splits_of(build.plan().positions)[0].target == 2
        build.snapshot()
        assert [offset for _, offset, _ in build.content()] == [0, 1, 2]
    landing.land_all()
    build.prove()
    assert build.content() == everything(topic)


@pytest.mark.soak
def test_an_idle_topic_and_an_empty_one_finish(topic: Topic, landing: Landing, make_build: MakeBuild) -> None:
    topic.create(partitions=2)
    topic.send(numbered(4))
    landing.land_all()
    build = make_build()
    build.hand_off()
    assert build.content() == everything(topic)


@pytest.mark.soak
def test_a_partition_that_appears(topic: Topic, landing: Landing, make_build: MakeBuild) -> None:
    topic.create()
    topic.send(numbered(4))
    landing.land_all()
    build = make_build()
    build.plan()
    topic.grow(3)
    for partition in (1, 2):
        topic.send(numbered(4, partition))
    landing.skip({2: 2})
    landing.land({0: 4, 1: 3, 2: 3})
    build.snapshot()
    landing.land_all()
    state = build.complete()
    assert build.content() == everything(topic)
    assert {n: split.read for n, split in splits_of(state.positions).items()} == {0: 4, 1: 0, 2: 3}


@pytest.mark.soak
def test_partitions_that_appear_after_the_hand_off(topic: Topic, landing: Landing, make_build: MakeBuild) -> None:
    """One lands from its first record on, and is followed. Of the other one the landing table has not all."""
    topic.create()
    topic.send(numbered(4))
    landing.land_all()
    build = make_build()
    build.hand_off()
    topic.grow(2)
    topic.send(numbered(4, 1))
    landing.land_all()
    build.upstream()
    assert build.content() == everything(topic)
    topic.grow(3)
    topic.send(numbered(4, 2))
    landing.skip({2: 2})
    landing.land_all()
    with pytest.raises(PartitionIncomplete, match="partition 2"):
        build.upstream()
    assert len(build.content()) == 8


@pytest.mark.soak
def test_history_from_a_time_on(topic: Topic, landing: Landing, make_build: MakeBuild) -> None:
    topic.create()
    topic.send([Record(b"%d" % n, timestamp=1_700_000_000_000 + n * 60_000) for n in range(6)])
    landing.land_all()
    since = "2023-11-14T22:15:20Z"  # two minutes after the first record
    build = make_build(topic={"first": since})
    build.hand_off()
    assert build.content() == everything(topic)[2:]


def test_a_topic_alone_is_read_to_its_pinned_end_and_a_stream_goes_on(
    spark: SparkSession, topic: Topic, make_build: MakeBuild, tmp_path: Path
) -> None:
    topic.create(partitions=2)
    topic.send(numbered(5))
    build = make_build(source=None)
    build.plan()
    topic.send(numbered(3, 0, first=5) + numbered(2, 1))
    build.snapshot()
    state = build.complete()
    assert build.content() == everything(topic)[:5]
    assert state.certificate is not None and state.certificate.rows == 5
    topic.grow(3)
    topic.send(numbered(1, 2))

    def go_on() -> None:
        rows = follow(spark, build.target).selectExpr(*PLACES)
        writer = rows.writeStream.format("delta").option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start(build.target).awaitTermination()

    go_on()
    assert build.content() == everything(topic)
    # Retention has passed the pinned end; the query goes on where it was.
    expected = everything(topic)
    topic.truncate(7)
    topic.send(numbered(2, 0, first=8))
    go_on()
    assert build.content() == sorted([*expected, (0, 8, "v8"), (0, 9, "v9")])
