"""A landing table that is wrong: records that are there twice, out of order, aborted, or of another topic."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession

from airflow_backfill.core.errors import (
    BackfillError,
    KafkaLost,
    LandingInvalid,
    NotAppendOnly,
    OffsetsInvalid,
    PartitionIncomplete,
    SourceReplaced,
)
from airflow_backfill.core.kafka.offsets import Batch
from airflow_backfill.core.state.effect import Landed
from airflow_backfill.core.values.epoch import EpochRange
from airflow_backfill.spark.kafka.landing_table import LandingTable
from airflow_backfill.spark.run.planner import OnExisting
from demo.kafka.topic import Topic
from tests.spark.kafka.topics import SCHEMA, Landing, MakeBuild, everything, numbered, row

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("connection")]


@pytest.mark.soak
def test_a_landing_that_repeats_itself_is_counted_and_one_out_of_order_is_refused(
    topic: Topic, landing: Landing, make_build: MakeBuild
) -> None:
    topic.create()
    topic.send(numbered(6))
    landing.skip({0: 2})
    landing.land({0: 4})
    build = make_build()
    build.read()
    again = [row(message) for message in topic.records() if message.offset() in (2, 3)]
    landing.append(again)
    landing.land({0: 6})
    landing.append(again + [row(message) for message in topic.records() if message.offset() == 5])
    state = build.complete()
    assert build.content() == everything(topic)
    assert state.totals.repeated_rows == 5
    landing.append([row(message) for message in topic.records() if message.offset() == 0])
    with pytest.raises(OffsetsInvalid, match="offset 0 of partition 0"):
        build.upstream()
    assert build.content() == everything(topic)


def test_a_table_that_is_no_landing_is_refused(topic: Topic, landing: Landing, make_build: MakeBuild) -> None:
    topic.create()
    table = pa.table({"topic": ["a"], "partition": pa.array([0], pa.int64()), "offset": [0]})
    write_deltalake(landing.table, table, mode="overwrite", schema_mode="overwrite")
    with pytest.raises(LandingInvalid, match="partition of type int; this one has bigint"):
        make_build().plan()


@pytest.mark.parametrize("place", [{"partition": None}, {"partition": -1}, {"offset": None}, {"offset": -1}])
def test_rows_without_a_place_are_refused(spark: SparkSession, tmp_path: Path, place: dict[str, int | None]) -> None:
    landing = LandingTable(spark, str(tmp_path), "clicks")
    rows = [{"topic": "clicks", "partition": 0, "offset": n} for n in range(3)]
    for some in ([], rows[:1], [{**rows[1], **place}, rows[2]]):
        write_deltalake(landing.location, pa.Table.from_pylist(some, SCHEMA), mode="append")
    assert landing.greatest(1) == {0: 0} and landing.landed(EpochRange(1, 2), {}) == Landed({0: Batch(0, 0, 1)})
    for look in (partial(landing.greatest, 2), partial(landing.landed, EpochRange(1, 3), {})):
        with pytest.raises(LandingInvalid, match="1 rows of topic clicks"):
            look()


def test_records_of_a_former_topic_do_not_stand_in_for_expired_ones(
    topic: Topic, landing: Landing, make_build: MakeBuild, tmp_path: Path
) -> None:
    """Its ingestion went on where the former topic ended, so no offset has landed twice."""
    topic.create()
    topic.send(numbered(5, first=100))
    landing.land_all()
    topic.delete()
    topic.create()
    topic.send(numbered(10))
    landing.land_all()
    topic.truncate(3)
    with pytest.raises(SourceReplaced, match="offset 3 of partition 0 is another record"):
        make_build().plan()
    assert not (tmp_path / "target").exists()


@pytest.mark.soak
def test_a_topic_that_is_created_again_after_the_finish_is_not_followed(
    topic: Topic, landing: Landing, make_build: MakeBuild, tmp_path: Path
) -> None:
    """Its first offsets have landed before, as other records."""
    topic.create()
    topic.send(numbered(5))
    landing.land_all()
    build = make_build()
    build.hand_off()
    before = build.content()
    topic.delete()
    topic.create()
    topic.send(numbered(6, first=100))
    landing.skip({0: 0})
    landing.land_all()
    with pytest.raises(SourceReplaced, match="offset 0 of partition 0 twice") as replaced:
        build.upstream()
    assert (replaced.value.data["partition"], replaced.value.data["offset"]) == (0, 0)
    assert build.content() == before
    # The way out: the former topic's rows go, and the new one gets a target.
    landing.delete("key IN (X'6B30', X'6B31', X'6B32', X'6B33', X'6B34')")
    anew = make_build(target=tmp_path / "anew")
    anew.hand_off()
    assert anew.content() == everything(topic)


@pytest.mark.soak
def test_aborted_records_that_have_landed_are_refused_by_name(
    topic: Topic, landing: Landing, make_build: MakeBuild, tmp_path: Path
) -> None:
    """By the plan what landed before it, by the proof what landed later."""
    topic.create()
    landing.committed = False
    topic.send(numbered(5))
    with topic.transaction(numbered(3, first=20), commit=False):
        pass
    topic.send(numbered(2, first=30))
    landing.land_all()
    build = make_build()
    with pytest.raises(LandingInvalid, match=r"3 rows .* no committed records") as refused:
        build.plan()
    assert {name: refused.value.data[name] for name in ("first", "last", "count")} == {
        "first": 5,
        "last": 7,
        "count": 3,
    }
    assert not (tmp_path / "target").exists()
    landing.delete("offset BETWEEN 5 AND 7")
    build.read()
    with topic.transaction(numbered(2, first=40), commit=False):
        pass
    topic.send(numbered(2, first=50))
    landing.land_all()
    build.apply_log()
    with pytest.raises(LandingInvalid, match=r"2 rows .* isolation.level") as refused:
        build.verify()
    first, last = refused.value.data["first"], refused.value.data["last"]
    landing.delete(f"offset BETWEEN {first} AND {last}")
    build.plan(OnExisting.RESTART)
    build.snapshot()
    build.complete()
    assert build.content() == everything(topic)


@pytest.mark.soak
@pytest.mark.parametrize(("error", "change"), [(OffsetsInvalid, "late"), (NotAppendOnly, "delete")])
def test_a_follower_that_its_landing_table_has_stopped_is_planned_again(
    topic: Topic, landing: Landing, make_build: MakeBuild, error: type[BackfillError], change: str
) -> None:
    """No later commit of the table helps, and nothing in it has to be mended first."""
    topic.create()
    topic.send(numbered(6))
    landing.skip({0: 2})
    landing.land({0: 4})
    build = make_build()
    build.read()
    landing.land_all()
    build.complete()
    if change == "late":
        landing.append([row(message) for message in topic.records() if message.offset() == 0])
    else:
        landing.delete("offset = 3")
    for _ in range(2):
        with pytest.raises(error, match="on_existing='restart'"):
            build.upstream()
    build.plan(OnExisting.RESTART)
    build.snapshot()
    build.complete()
    assert build.content() == everything(topic)


@pytest.mark.soak
@pytest.mark.parametrize("gone", [0, 4])
def test_a_new_partition_whose_first_records_land_last_is_followed_on(
    topic: Topic, landing: Landing, make_build: MakeBuild, gone: int
) -> None:
    """Also if Kafka has deleted records of it that nobody has read."""
    topic.create()
    topic.send(numbered(5))
    landing.land_all()
    build = make_build()
    build.hand_off()
    topic.grow(2)
    topic.send(numbered(10, partition=1, first=50))
    topic.truncate(gone, partition=1)
    landing.skip({1: 6})
    landing.land_all()
    with pytest.raises(KafkaLost if gone else PartitionIncomplete, match=r"from (offset 4 on|its first offset)"):
        build.upstream()
    landing.append([row(message) for message in topic.records(1) if message.offset() < 6])
    build.upstream()
    assert build.content() == everything(topic)
