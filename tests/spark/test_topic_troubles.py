"""What is wrong with a topic, with what lands of it or with what is asked: counted, put aside, or refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from airflow_backfill.core import effect as fx
from airflow_backfill.core.attempt import Attempt, run
from airflow_backfill.core.errors import (
    BackfillError,
    DecoderInvalid,
    InvalidExpression,
    InvalidSpec,
    KafkaLost,
    KafkaOption,
    KeyInvalid,
    LandingInvalid,
    OffsetsInvalid,
    SourceReplaced,
    TopicMissing,
    Undecodable,
)
from airflow_backfill.core.kafka.connection import VARIABLE
from airflow_backfill.core.task import SnapshotTask
from airflow_backfill.spark import decoders
from airflow_backfill.spark.decoders import ColumnDecoder
from airflow_backfill.spark.shell import Shell
from demo.kafka.topic import Record, Topic
from tests.spark.topics import PLACES, Landing, TopicBuild, everything, numbered, row

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("connection")]


def test_undecodable_records_go_to_their_table_once(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    topic.create()
    landing = Landing(topic, tmp_path / "landing")
    good, bad = [b'{"id": %d}' % n for n in range(4)], [b"{", b'{"id": "x"}']
    topic.send([Record(value) for value in (good[0], bad[0], good[1])])
    landing.land_all()
    dead = str(tmp_path / "dead")
    decoding = {"value": "json:id BIGINT", "undecodable": f"dead_letters:{dead}"}
    build = TopicBuild(spark, landing, tmp_path / "target", select=["id"], topic=decoding)
    build.plan()
    shell = Shell(spark, build.target)
    _die_before_the_commit(shell, SnapshotTask(0, 1, build.size), build.attempt())
    topic.send([Record(value) for value in (good[2], bad[1], good[3])])
    build.snapshot()
    landing.land_all()
    for phase in (build.consume_log, build.catch_up, build.verify):
        state = phase()
    assert build.content() == [(0,), (1,), (2,), (3,)]
    assert (state.totals.undecodable_rows, state.totals.unwanted_rows) == (2, 0)
    letters = spark.read.format("delta").load(dead).orderBy("offset").collect()
    assert [(row["offset"], bytes(row["value"])) for row in letters] == [(1, bad[0]), (4, bad[1])]
    assert all(row["reason"].startswith("value ") for row in letters)


def test_an_undecodable_record_stops_a_build_without_a_table_for_it(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    topic.create()
    landing = Landing(topic, tmp_path / "landing")
    topic.send([Record(b'{"id": 1}'), Record(b"secret")])
    build = TopicBuild(spark, landing, tmp_path / "target", select=["id"], topic={"value": "json:id BIGINT"})
    build.plan()
    with pytest.raises(Undecodable) as raised:
        build.snapshot()
    assert raised.value.data["sample"][0]["offset"] == 1 and "secret" not in str(raised.value)
    assert build.content() == []


def test_a_decoder_that_has_changed_since_the_plan_stops_the_build(
    spark: SparkSession, topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic.create()
    landing = Landing(topic, tmp_path / "landing")
    topic.send(numbered(3))
    build = TopicBuild(spark, landing, tmp_path / "target", select=["value"], topic={"value": "decoder:length"})
    monkeypatch.setattr(decoders, "_registered", {"length": ColumnDecoder(F.length, version="1")})
    build.plan()
    decoders._registered["length"] = ColumnDecoder(F.length, version="2")
    with pytest.raises(DecoderInvalid, match=r"length@2.* instead of .*length@1"):
        build.snapshot()
    assert build.content() == []


def test_a_landing_that_repeats_itself_is_counted_and_one_out_of_order_is_refused(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    topic.create()
    landing = Landing(topic, tmp_path / "landing")
    topic.send(numbered(6))
    landing.skip({0: 2})
    landing.land({0: 4})
    build = TopicBuild(spark, landing, tmp_path / "target", select=PLACES)
    build.plan()
    build.snapshot()
    again = [row(message) for message in topic.records() if message.offset() in (2, 3)]
    landing.append(again)
    landing.land({0: 6})
    landing.append(again + [row(message) for message in topic.records() if message.offset() == 5])
    for phase in (build.consume_log, build.catch_up, build.verify, build.finish):
        state = phase()
    assert build.content() == everything(topic)
    assert state.totals.repeated_rows == 5
    landing.append([row(message) for message in topic.records() if message.offset() == 0])
    with pytest.raises(OffsetsInvalid, match="offset 0 of partition 0"):
        build.upstream()
    assert build.content() == everything(topic)


@pytest.mark.parametrize("trouble", ["expired", "created again", "deleted"])
def test_history_that_is_lost_stops_by_name(spark: SparkSession, topic: Topic, tmp_path: Path, trouble: str) -> None:
    topic.create()
    landing = Landing(topic, tmp_path / "landing")
    topic.send(numbered(6))
    build = TopicBuild(spark, landing, tmp_path / "target", select=PLACES)
    build.plan()
    if trouble == "expired":
        topic.truncate(2)
    else:
        topic.delete()
    if trouble == "created again":
        topic.create()
        topic.send(numbered(9))
    errors: dict[str, type[BackfillError]] = {
        "expired": KafkaLost, "created again": SourceReplaced, "deleted": TopicMissing,
    }  # fmt: skip
    with pytest.raises(errors[trouble]):
        build.snapshot()
    assert build.content() == []


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
    spark: SparkSession, topic: Topic, tmp_path: Path, change: dict[str, Any], error: type[BackfillError]
) -> None:
    topic.create()
    landing = Landing(topic, tmp_path / "landing")
    with pytest.raises(error):
        TopicBuild(spark, landing, tmp_path / "target", **{"select": PLACES, **change}).plan()
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize("more", [None, {"group.id": "mine"}, {"sasl.login.class": "Evil"}])
def test_a_connection_that_may_not_be_used_is_refused_before_anything_is_written(
    spark: SparkSession, topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, str] | None
) -> None:
    topic.create()
    landing = Landing(topic, tmp_path / "landing")
    monkeypatch.delenv(VARIABLE)
    if more is not None:
        monkeypatch.setenv(VARIABLE, json.dumps({"bootstrap.servers": topic.servers, **more}))
    with pytest.raises(KafkaOption):
        TopicBuild(spark, landing, tmp_path / "target", select=PLACES).plan()
    assert not (tmp_path / "target").exists()


def test_a_table_that_is_no_landing_is_refused(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    topic.create()
    landing = Landing(topic, tmp_path / "landing")
    table = pa.table({"topic": ["a"], "partition": pa.array([0], pa.int64()), "offset": [0]})
    write_deltalake(landing.table, table, mode="overwrite", schema_mode="overwrite")
    with pytest.raises(LandingInvalid, match="partition of type int; this one has bigint"):
        TopicBuild(spark, landing, tmp_path / "target", select=PLACES).plan()


def _die_before_the_commit(shell: Shell, task: SnapshotTask, me: Attempt) -> None:
    """An attempt that does everything for its first round but commit it."""
    generator = run(task, me)
    answer = None
    while True:
        effect = generator.send(answer) if answer is not None else next(generator)
        if isinstance(effect, fx.Write) and isinstance(effect.work, fx.TakeOffsets):
            return
        answer = shell.answer(effect)
