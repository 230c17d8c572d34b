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

from airflow_backfill.builds.ordering import ordered
from airflow_backfill.core.attempts.attempt import run
from airflow_backfill.core.attempts.goals import SnapshotGoal
from airflow_backfill.core.errors import (
    BackfillError,
    DecoderInvalid,
    InvalidExpression,
    InvalidSpec,
    KafkaLost,
    KafkaOption,
    KeyInvalid,
    LandingInvalid,
    NotAllowedNow,
    OffsetsInvalid,
    OrderUnknown,
    SourceReplaced,
    TopicMissing,
    Undecodable,
)
from airflow_backfill.core.kafka.connection import VARIABLE
from airflow_backfill.core.splits.partitions import splits_of
from airflow_backfill.core.state import effect as fx
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.core.values.round_size import RoundSize
from airflow_backfill.spark.kafka import decoders
from airflow_backfill.spark.kafka.decoders import ColumnDecoder
from airflow_backfill.spark.kafka.records import TopicRecords
from airflow_backfill.spark.run.interpreter import Shell
from airflow_backfill.spark.run.planner import OnExisting
from demo.kafka.topic import COMPACTED, Record, Topic
from tests.spark.kafka.topics import PLACES, Landing, MakeBuild, everything, numbered, row

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("connection")]


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
    shell = Shell(spark, build.target)
    _die_before_the_commit(shell, SnapshotGoal(0, 1, build.size), build.attempt())
    topic.send([Record(value) for value in (good[2], bad[1], good[3])])
    build.snapshot()
    landing.land_all()
    state = build.prove()
    assert build.content() == [(0,), (1,), (2,), (3,)]
    assert (state.totals.undecodable_rows, state.totals.unwanted_rows) == (2, 0)
    letters = spark.read.format("delta").load(dead).orderBy("offset").collect()
    assert [(row["offset"], bytes(row["value"])) for row in letters] == [(1, bad[0]), (4, bad[1])]
    assert all(row["reason"].startswith("value ") for row in letters)


def test_an_undecodable_record_stops_a_build_without_a_table_for_it(topic: Topic, make_build: MakeBuild) -> None:
    topic.create()
    topic.send([Record(b'{"id": 1}'), Record(b"secret")])
    build = make_build(select=["id"], topic={"value": "json:id BIGINT"})
    build.plan()
    with pytest.raises(Undecodable) as raised:
        build.snapshot()
    assert raised.value.data["sample"][0]["offset"] == 1 and "secret" not in str(raised.value)
    assert build.content() == []


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


@pytest.mark.parametrize("handed_over", [False, True])
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


@pytest.mark.parametrize("trouble", ["expired", "created again", "deleted"])
def test_history_that_is_lost_stops_by_name(topic: Topic, make_build: MakeBuild, trouble: str) -> None:
    topic.create()
    topic.send(numbered(6))
    build = make_build()
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


def test_a_table_that_is_no_landing_is_refused(topic: Topic, landing: Landing, make_build: MakeBuild) -> None:
    topic.create()
    table = pa.table({"topic": ["a"], "partition": pa.array([0], pa.int64()), "offset": [0]})
    write_deltalake(landing.table, table, mode="overwrite", schema_mode="overwrite")
    with pytest.raises(LandingInvalid, match="partition of type int; this one has bigint"):
        make_build().plan()


def test_what_only_the_landing_table_still_has_is_history_too(
    topic: Topic, landing: Landing, make_build: MakeBuild
) -> None:
    """Of partition 0 Kafka has lost what has landed, of partition 1 nothing. A row that landed twice is one record."""
    topic.create(partitions=2)
    for partition in range(2):
        topic.send(numbered(30, partition))
    landing.land_all()
    landing.append([row(message) for message in topic.records() if message.offset() == 3])
    expected = everything(topic)
    topic.truncate(20)
    build = make_build()
    build.size = RoundSize(rows=16)
    build.plan()
    build.first_rounds(1)
    topic.truncate(25)  # retention goes on
    topic.send(numbered(4, first=30))
    landing.land_all()
    build.snapshot()
    state = build.complete()
    assert build.content() == sorted([*expected, *((0, n, f"v{n}") for n in range(30, 34))])
    assert state.certificate is not None and (state.certificate.gone, state.certificate.lost) == (0, 0)
    assert splits_of(state.positions)[0].floor == 25 and splits_of(state.positions)[1].floor == 0


def test_what_nobody_has_any_more_is_refused_with_its_count_or_passed_over_and_counted(
    topic: Topic, landing: Landing, make_build: MakeBuild, tmp_path: Path
) -> None:
    topic.create()
    topic.send([Record(b"v%d" % n, timestamp=1_700_000_000_000 + n * 60_000) for n in range(30)])
    landing.land({0: 10})
    landing.skip({0: 13})
    landing.land({0: 18})
    expected = [found for found in everything(topic) if found[1] not in (10, 11, 12, 18, 19)]
    topic.truncate(20)
    with pytest.raises(KafkaLost, match="has 5 of the offsets") as lost:
        make_build().plan()
    assert (lost.value.data["wanted"], lost.value.data["missing"]) == (0, 5)
    assert not (tmp_path / "target").exists()
    since = {"first": "2023-11-14T22:26:20Z", "expired": "skip"}  # 13 minutes after the first record
    build = make_build(target=tmp_path / "since", topic=since)
    assert splits_of(build.plan().positions)[0].scanned == 12
    build = make_build(topic={"expired": "skip"})
    build.size = RoundSize(rows=8)
    build.plan()
    build.first_rounds(3)
    topic.truncate(23)  # three more that nobody has read, and that have not landed
    landing.skip({0: 29})
    landing.land_all()
    build.snapshot()
    state = build.prove()
    assert build.content() == [found for found in expected if found[1] not in (20, 21, 22)]
    assert splits_of(state.positions)[0].lost == 8 and state.certificate is not None and state.certificate.lost == 8


def test_history_that_is_lost_while_it_is_read_is_passed_over_once_that_is_ordered(
    topic: Topic, landing: Landing, make_build: MakeBuild
) -> None:
    """What was read before stays."""
    topic.create()
    topic.send(numbered(30))
    landing.skip({0: 28})
    landing.land_all()
    build = make_build()
    build.size = RoundSize(rows=8)
    build.plan()
    build.first_rounds(1)
    topic.truncate(12)
    with pytest.raises(KafkaLost, match="table-backfill skip") as lost:
        build.snapshot()
    assert (lost.value.data["wanted"], lost.value.data["missing"]) == (8, 4)
    with pytest.raises(KafkaLost):
        build.snapshot()
    ordered(build.target, Command(Verb.SKIP))
    build.snapshot()
    build.consume_log()
    with pytest.raises(NotAllowedNow, match="nothing to skip"):
        ordered(build.target, Command(Verb.SKIP))
    build.catch_up()
    build.verify()
    state = build.finish()
    assert build.content() == [(0, n, f"v{n}") for n in range(30) if not 8 <= n < 12]
    assert state.control.skips and state.certificate is not None and state.certificate.lost == 4


def test_of_a_topic_alone_nothing_is_lost_that_its_stream_begins_with(topic: Topic, make_build: MakeBuild) -> None:
    """Retention has passed the pinned end: what is beyond it is no history."""
    topic.create()
    topic.send(numbered(30))
    build = make_build(source=None)
    build.size = RoundSize(rows=8)
    build.plan()
    build.first_rounds(1)
    topic.send(numbered(10, first=30))
    topic.truncate(35)
    with pytest.raises(KafkaLost) as lost:
        build.snapshot()
    assert lost.value.data["missing"] == 22
    ordered(build.target, Command(Verb.SKIP))
    build.snapshot()
    state = build.complete()
    assert build.content() == [(0, n, f"v{n}") for n in range(8)]
    assert state.certificate is not None and (state.certificate.lost, state.certificate.gone) == (22, 8)


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


def test_a_compaction_while_a_round_is_written_makes_no_count_negative(
    topic: Topic, make_build: MakeBuild, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic.create(config=COMPACTED)
    topic.send(numbered(5) + numbered(5))
    with topic.transaction(numbered(2, first=20), commit=False):
        pass
    topic.send(numbered(2, first=30))
    build = make_build(source=None)
    build.plan()
    check, compacted = TopicRecords.check_there, []

    def compacting(self: TopicRecords, ranges: Any) -> Any:
        if not compacted:
            topic.compact()
            compacted.append(True)
        return check(self, ranges)

    monkeypatch.setattr(TopicRecords, "check_there", compacting)
    state = build.snapshot()
    assert (compacted, state.totals.unwanted_rows) == ([True], 0)
    assert len(build.content()) == splits_of(state.positions)[0].read < 12


def _die_before_the_commit(shell: Shell, task: SnapshotGoal, me: Attempt) -> None:
    """An attempt that does everything for its first round but commit it."""
    generator = run(task, me)
    answer = None
    while True:
        effect = generator.send(answer) if answer is not None else next(generator)
        if isinstance(effect, fx.CommitRecord) and isinstance(effect.work, fx.TakeOffsets):
            return
        answer = shell.answer(effect)
