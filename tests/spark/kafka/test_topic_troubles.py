"""What is wrong with a topic's records, or with what is asked: put aside, or refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from airflow_backfill.builds.ordering import ordered
from airflow_backfill.core.attempts.attempt import run
from airflow_backfill.core.attempts.goals import SnapshotGoal
from airflow_backfill.core.errors import (
    BackfillError,
    DecoderInvalid,
    InvalidExpression,
    InvalidSpec,
    KafkaOption,
    KeyInvalid,
    NotAllowedNow,
    OrderUnknown,
    TopicMissing,
    Undecodable,
)
from airflow_backfill.core.kafka.connection import VARIABLE
from airflow_backfill.core.state import effect as fx
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.core.values.round_size import RoundSize
from airflow_backfill.ledger.control_folder import dead_letters_beside
from airflow_backfill.spark.kafka import decoders
from airflow_backfill.spark.kafka.decoders import ColumnDecoder
from airflow_backfill.spark.run.interpreter import Shell
from airflow_backfill.spark.run.planner import OnExisting
from demo.kafka.topic import Record, Topic
from tests.spark.build import about_to
from tests.spark.kafka.topics import Landing, MakeBuild, numbered

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("connection")]

HANDED_OVER = [False, pytest.param(True, marks=pytest.mark.soak)]


def test_undecodable_records_go_to_their_table_once(
    spark: SparkSession, topic: Topic, landing: Landing, make_build: MakeBuild, tmp_path: Path
) -> None:
    topic.create()
    good, bad = [b'{"id": %d}' % n for n in range(4)], [b"{", b'{"id": "x"}']
    topic.send([Record(value) for value in (good[0], bad[0], good[1])])
    landing.land_all()
    dead = str(tmp_path / "dead")
    decoding = {"value": "json:id BIGINT", "undecodable": f"dead_letters:{dead}"}
    build = make_build(select=["id"], topic=decoding)
    build.plan()
    # An attempt that does everything for its first round but commit it.
    dies = run(SnapshotGoal(0, 1, build.size), build.attempt())
    about_to(dies, Shell(spark, build.target), lambda write: isinstance(write.work, fx.TakeOffsets))
    topic.send([Record(value) for value in (good[2], bad[1], good[3])])
    build.snapshot()
    landing.land_all()
    state = build.prove()
    assert build.content() == [(0,), (1,), (2,), (3,)]
    assert (state.totals.undecodable_rows, state.totals.unwanted_rows) == (2, 0)
    letters = spark.read.format("delta").load(dead).orderBy("offset").collect()
    assert [(row["offset"], bytes(row["value"])) for row in letters] == [(1, bad[0]), (4, bad[1])]
    assert all(row["reason"].startswith("value ") for row in letters)


@pytest.mark.soak
@pytest.mark.parametrize("handed_over", HANDED_OVER)
def test_an_undecodable_record_stops_a_build_until_such_records_may_be_put_aside(
    spark: SparkSession, topic: Topic, landing: Landing, make_build: MakeBuild, handed_over: bool
) -> None:
    """Without a key, too: a record without one has no row."""
    topic.create()
    bad = [Record(b"secret", b'{"id": 1}'), Record(b'{"n": 3}', b"{}"), Record(None, None)]
    topic.send([Record(b'{"n": 1}', b'{"id": 1}'), *([] if handed_over else bad)])
    landing.land_all()
    build = make_build(key=["id"], select=["id", "n"], topic={"key": "json:id BIGINT", "value": "json:n INT"})
    if handed_over:
        build.hand_off()
        topic.send(bad)
        landing.land_all()
    else:
        build.plan()
    for _ in range(2):
        with pytest.raises(Undecodable, match="table-backfill dead-letter TARGET") as raised:
            build.upstream() if handed_over else build.snapshot()
        assert [one["offset"] for one in raised.value.data["sample"]] == [1, 2, 3]
        assert "secret" not in str(raised.value.to_json())
    assert build.content() == ([(1, 1)] if handed_over else [])
    ordered(build.target, Command(Verb.DEAD_LETTER))
    build.upstream() if handed_over else build.hand_off()
    topic.send([Record(b"{", b'{"id": 2}'), Record(b'{"n": 2}', b'{"id": 2}')])
    landing.land_all()
    build.upstream()
    state = build.reader.state()
    assert build.content() == [(1, 1), (2, 2)]
    assert state.control.dead_letters and state.totals.undecodable_rows == 4
    letters = spark.read.format("delta").load(dead_letters_beside(build.target, state.plan.build))
    assert [row["offset"] for row in letters.orderBy("offset").collect()] == [1, 2, 3, 4]


def test_only_a_build_without_a_table_of_dead_letters_gets_one_beside_its_target(
    topic: Topic, make_build: MakeBuild, tmp_path: Path
) -> None:
    topic.create()
    build = make_build(topic={"undecodable": f"dead_letters:{tmp_path / 'dead'}"})
    build.plan()
    with pytest.raises(NotAllowedNow, match="already names a table of dead letters"):
        ordered(build.target, Command(Verb.DEAD_LETTER))


def test_a_decoder_that_has_changed_since_the_plan_stops_the_build(
    topic: Topic, make_build: MakeBuild, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic.create()
    topic.send(numbered(3))
    build = make_build(select=["value"], topic={"value": "decoder:length"})
    monkeypatch.setattr(decoders.DECODERS, "_known", {"length": ColumnDecoder(F.length, version="1")})
    build.plan()
    decoders.DECODERS._known["length"] = ColumnDecoder(F.length, version="2")
    with pytest.raises(DecoderInvalid, match=r"length@2.* instead of .*length@1"):
        build.snapshot()
    assert build.content() == []


@pytest.mark.parametrize("handed_over", HANDED_OVER)
def test_a_key_that_comes_in_another_partition_stops_the_build_before_a_row_is_wrong(
    topic: Topic, landing: Landing, make_build: MakeBuild, handed_over: bool
) -> None:
    """In the history, rounds after its first record, and after the finish; also once it was deleted."""
    topic.create(partitions=2)

    def keyed(number: int, partition: int, value: bytes | None = b"v") -> Record:
        return Record(value, b'{"id": %d}' % number, partition)

    topic.send([keyed(1, 0), keyed(2, 0), keyed(2, 0, None), keyed(3, 1), keyed(4, 1)])
    landing.land_all()
    spec = {"key": ["id"], "select": ["id"], "topic": {"key": "json:id BIGINT"}}
    build = make_build(**spec)
    build.size = RoundSize(rows=6)
    if handed_over:
        build.hand_off()
        topic.send([keyed(5, 1), keyed(2, 1)])
        landing.land_all()
    else:
        topic.send([keyed(5, 1), keyed(2, 1)])
        build.plan()
    with pytest.raises(OrderUnknown, match=r"key \{'id': '2'\}.*topic\.order") as raised:
        build.upstream() if handed_over else build.snapshot()
    before = {"partition": 0, "offset": 2}
    assert raised.value.data == {
        "count": 1, "sample": [{"key": {"id": "2"}, "partition": 1, "offset": 3, "before": before}],
    }  # fmt: skip
    assert build.content() == [(1,), (3,), (4,), *([] if handed_over else [(5,)])]
    if not handed_over:
        old = build.reader.state().plan
        select, decoding = ["id", "timestamp", "partition", "offset"], {"key": "json:id BIGINT", "order": "timestamp"}
        build.spec = make_build(key=["id"], select=select, topic=decoding).spec
        new = build.plan(OnExisting.RESTART).plan
        assert [Path(location).is_dir() for location in (old.made[1], new.made[1])] == [False, True]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"topic": {"name": "nobody-made-it"}}, TopicMissing),
        ({"topic": {"value": "json:id BIGINT", "key": "json:id BIGINT"}}, InvalidSpec),
        ({"key": ["value"]}, KeyInvalid),
        ({"select": ["nothing"]}, InvalidExpression),
    ],
)
def test_what_cannot_be_built_is_refused_before_anything_is_written(
    topic: Topic, make_build: MakeBuild, tmp_path: Path, change: dict[str, Any], error: type[BackfillError]
) -> None:
    topic.create()
    with pytest.raises(error):
        make_build(**change).plan()
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize("more", [None, {"group.id": "mine"}, {"sasl.login.class": "Evil"}])
def test_a_connection_that_may_not_be_used_is_refused_before_anything_is_written(
    topic: Topic, make_build: MakeBuild, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, str] | None
) -> None:
    topic.create()
    monkeypatch.delenv(VARIABLE)
    if more is not None:
        monkeypatch.setenv(VARIABLE, json.dumps({"bootstrap.servers": topic.servers, **more}))
    with pytest.raises(KafkaOption):
        make_build().plan()
    assert not (tmp_path / "target").exists()
