"""Whole builds of a topic's history and of what lands later, with a real broker."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from airflow_backfill.core import effect as fx
from airflow_backfill.core.attempt import Attempt, run
from airflow_backfill.core.control import Command, Verb
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
    PartitionIncomplete,
    SourceReplaced,
    TopicMissing,
    Undecodable,
    VerificationFailed,
)
from airflow_backfill.core.kafka.connection import VARIABLE
from airflow_backfill.core.kafka.state import Finished
from airflow_backfill.core.round_size import RoundSize
from airflow_backfill.core.state import BuildState
from airflow_backfill.core.step import Done
from airflow_backfill.core.task import SnapshotTask
from airflow_backfill.ledger.control_folder import ControlFolder
from airflow_backfill.spark import decoders
from airflow_backfill.spark.decoders import ColumnDecoder
from airflow_backfill.spark.landing import land
from airflow_backfill.spark.landing import parser as landing_parser
from airflow_backfill.spark.shell import Shell
from airflow_backfill.spark.stream import follow
from demo.kafka.broker import Broker
from demo.kafka.topic import COMPACTED, Record, Topic
from tests.spark.topics import Landing, TopicBuild, numbered, row

pytestmark = pytest.mark.spark

PLACES = ["partition", "offset", "string(value) AS value"]


@pytest.fixture(autouse=True)
def _connection(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, json.dumps({"bootstrap.servers": broker.servers}))


@dataclass(frozen=True)
class FirstRounds(SnapshotTask):
    """A snapshot that ends early."""

    build: TopicBuild
    rounds: int

    def step(self, state: Any, seen: Any) -> Any:
        done = sum(record.event.value == "offsets" for record in self.build.records())
        return Done() if done >= self.rounds else super().step(state, seen)


def everything(topic: Topic) -> list[tuple[int, int, str]]:
    """What an independent client reads of the topic."""
    return sorted(
        (message.partition(), message.offset(), message.value().decode())
        for partition in topic.partitions()
        for message in topic.records(partition)
    )


def test_history_and_landing_meet_at_the_seam(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    topic.create(partitions=3)
    landing = Landing(topic, tmp_path / "landing")
    for partition in range(3):
        topic.send(numbered(40, partition))
    landing.skip({0: 30, 1: 40, 2: 0})
    landing.land({0: 35, 2: 10})
    build = TopicBuild(spark, landing, tmp_path / "target", select=PLACES)
    build.size = RoundSize(rows=25)
    state = build.plan()
    assert [split.target for split in state.topic.values()] == [39, 39, 39]
    build.run(FirstRounds(0, 1, build.size, build, 2))
    for partition in range(3):
        topic.send(numbered(5, partition, first=40))
    landing.land({0: 43, 1: 42, 2: 20})
    state = build.snapshot()
    assert state.read
    landing.land_all()
    for phase in (build.consume_log, build.catch_up, build.verify, build.finish):
        state = phase()
    assert build.content() == everything(topic)
    assert state.certificate is not None and state.certificate.rows == 135
    topic.send(numbered(3, 1, first=45))
    landing.land_all()
    build.upstream()
    assert build.content() == everything(topic)


def test_a_hole_between_history_and_landing_fails_the_proof(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    """The ingestion begins with records that came after the plan, so that some were history to nobody."""
    topic.create(partitions=2)
    landing = Landing(topic, tmp_path / "landing")
    for partition in range(2):
        topic.send(numbered(10, partition))
    build = TopicBuild(spark, landing, tmp_path / "target", select=PLACES)
    build.plan()
    build.run(FirstRounds(0, 1, build.size, build, 1))
    for partition in range(2):
        topic.send(numbered(8, partition, first=10))
    landing.skip({0: 10, 1: 13})
    landing.land_all()
    build.snapshot()
    for phase in (build.consume_log, build.catch_up):
        phase()
    with pytest.raises(VerificationFailed, match="3 records are in Kafka") as failed:
        build.verify()
    assert {name: failed.value.data[name] for name in ("partition", "first", "last")} == {
        "partition": 1, "first": 10, "last": 12,
    }  # fmt: skip


def test_lanes_share_the_partitions_and_one_may_have_none(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    topic.create(partitions=2)
    landing = Landing(topic, tmp_path / "landing")
    for partition in range(2):
        topic.send(numbered(10, partition))
    landing.land_all()
    build = TopicBuild(spark, landing, tmp_path / "target", lanes=3, select=PLACES)
    build.size = RoundSize(rows=4)
    state = build.hand_off()
    assert build.content() == everything(topic)
    assert state.certificate is not None and state.certificate.rows == 20
    assert [split.read for split in state.topic.values()] == [10, 10]


def test_the_last_value_of_a_key_and_no_row_for_a_tombstone(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    topic.create(partitions=2)
    landing = Landing(topic, tmp_path / "landing")

    def order(number: int, partition: int, value: dict[str, Any] | None) -> Record:
        return Record(json.dumps(value).encode() if value else None, json.dumps({"id": number}).encode(), partition)

    topic.send([order(1, 0, {"paid": 1.5}), order(2, 1, {"paid": 2.5}), order(3, 0, {"paid": 3.5})])
    landing.land_all()
    build = TopicBuild(
        spark,
        landing,
        tmp_path / "target",
        key=["id"],
        select=["id", "paid * 2 AS twice"],
        where="paid > 0",
        topic={"key": "json:id BIGINT", "value": "json:paid DOUBLE"},
    )
    build.plan()
    build.snapshot()
    topic.send([order(1, 0, {"paid": 4.5}), order(2, 1, None), order(3, 0, {"paid": -1}), order(4, 1, {"paid": 1})])
    landing.land_all()
    for phase in (build.consume_log, build.catch_up, build.verify):
        state = phase()
    assert build.content() == [(1, 9.0), (4, 2.0)]
    build.finish()
    topic.send([order(2, 1, {"paid": 7}), order(1, 0, None)])
    landing.land_all()
    build.upstream()
    assert build.content() == [(2, 14.0), (4, 2.0)]
    assert state.certificate is not None and state.certificate.rows == 2


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


def test_an_idle_partition_is_not_waited_for_if_the_ingestion_is_known(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    """The ingestion began after all there is of partition 0: nothing of it will ever land."""
    topic.create(partitions=2)
    topic.send([*numbered(5), *numbered(5, 1)])
    table, notes = str(tmp_path / "landed"), str(tmp_path / "notes")

    def ingested() -> None:
        words = ["--topic", topic.name, "--table", table, "--checkpoint", notes]
        land(spark, {"bootstrap.servers": topic.servers}, landing_parser().parse_args(words))

    ingested()
    build = TopicBuild(
        spark, Landing(topic, tmp_path / "unused"), tmp_path / "target", source=table, select=PLACES,
        topic={"checkpoint": notes},
    )  # fmt: skip
    build.plan()
    topic.send(numbered(1, 1, first=5))
    ingested()
    build.snapshot()
    for phase in (build.consume_log, build.catch_up, build.verify, build.finish):
        state = phase()
    assert build.content() == everything(topic)
    assert [split.state for split in state.topic.values()] == [Finished(), Finished()]
    topic.send(numbered(2, 0, first=5))
    ingested()
    build.upstream()
    assert build.content() == everything(topic)


def test_holes_are_no_records(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    topic.create(config=COMPACTED)
    landing = Landing(topic, tmp_path / "landing")
    topic.send(numbered(5) + numbered(5))
    with topic.transaction(numbered(3, first=20), commit=False):
        pass
    topic.compact()
    with topic.transaction(numbered(2, first=30)):
        pass
    landing.skip({0: topic.bounds()[1]})
    build = TopicBuild(spark, landing, tmp_path / "target", select=PLACES)
    build.size = RoundSize(rows=3)
    build.plan()
    build.snapshot()
    landing.landed[0] = 0
    landing.land_all()
    for phase in (build.consume_log, build.catch_up, build.verify, build.finish):
        state = phase()
    assert build.content() == everything(topic)
    assert state.topic[0].read == len(everything(topic)) < topic.bounds()[1]


def test_what_was_compacted_since_is_counted_and_the_rest_is_compared(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    """Every record is a row, and some of them are nowhere else any more."""
    topic.create(config=COMPACTED)
    landing = Landing(topic, tmp_path / "landing")
    topic.send(numbered(5) + numbered(5))
    landing.skip({0: 9})
    build = TopicBuild(spark, landing, tmp_path / "target", select=PLACES)
    build.plan()
    build.run(FirstRounds(0, 1, build.size, build, 1))
    landing.land_all()
    topic.compact()
    build.snapshot()
    for phase in (build.consume_log, build.catch_up):
        phase()
    state = build.verify()
    proven = state.certificate
    left = [message for message in topic.records() if message.offset() < 10]
    assert proven is not None and (proven.gone, proven.rows) == (10 - len(left), len(build.content()))
    assert 0 < proven.gone
    for wrong in ("offset = 0", "offset = 9"):
        with pytest.raises(VerificationFailed):
            _prove_after(build, state, f"DELETE FROM delta.`{build.target}` WHERE {wrong}")
    with pytest.raises(VerificationFailed, match="were written"):
        _prove_after(
            build, state, f"INSERT INTO delta.`{build.target}` SELECT * FROM delta.`{build.target}` WHERE offset = 9"
        )


def test_what_retention_took_since_is_counted_and_the_rest_is_compared(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    """Of the keys that are left the last record is known, be it a tombstone."""
    topic.create()
    landing = Landing(topic, tmp_path / "landing")
    paid = [(0, b"0"), (1, b"1"), (2, b"2"), (3, b"3"), (4, b"4"), (5, b"5"), (4, None), (5, b"70")]
    topic.send([Record(value, b'{"id": %d}' % key) for key, value in paid])
    landing.skip({0: 7})
    landing.land_all()
    build = TopicBuild(
        spark, landing, tmp_path / "target", key=["id"], select=["id", "value"],
        topic={"key": "json:id BIGINT", "value": "string"},
    )  # fmt: skip
    build.plan()
    build.snapshot()
    topic.truncate(3)
    for phase in (build.consume_log, build.catch_up):
        phase()
    state = build.verify()
    assert state.certificate is not None and (state.certificate.gone, state.certificate.rows) == (3, 5)
    for wrong in (
        f"UPDATE delta.`{build.target}` SET value = '5' WHERE id = 5",
        f"DELETE FROM delta.`{build.target}` WHERE id = 3",
        f"INSERT INTO delta.`{build.target}` VALUES (4, '4')",
    ):
        with pytest.raises(VerificationFailed):
            _prove_after(build, state, wrong)


def _prove_after(build: TopicBuild, state: BuildState, statement: str) -> None:
    """Prove a version of the target that somebody else has changed, which no task would get to; and change it back."""
    assert state.certificate is not None
    build.spark.sql(statement)
    shell = Shell(build.spark, build.target)
    shell.answer(fx.ReadPlan(state.plan.build))
    try:
        shell.answer(fx.Prove(state.certificate.epoch, shell.answer(fx.Head()), state.positions))
    finally:
        build.spark.sql(f"RESTORE delta.`{build.target}` TO VERSION AS OF {state.certificate.target_version}")


def test_an_open_transaction_is_waited_for(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    topic.create()
    landing = Landing(topic, tmp_path / "landing")
    topic.send(numbered(3))
    with topic.transaction(numbered(2, first=3)):
        topic.send(numbered(2, first=5))
        build = TopicBuild(spark, landing, tmp_path / "target", select=PLACES)
        assert build.plan().topic[0].target == 2
        build.snapshot()
        assert [offset for _, offset, _ in build.content()] == [0, 1, 2]
    landing.land_all()
    for phase in (build.consume_log, build.catch_up, build.verify):
        phase()
    assert build.content() == everything(topic)


def test_an_idle_topic_and_an_empty_one_finish(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    topic.create(partitions=2)
    topic.send(numbered(4))
    landing = Landing(topic, tmp_path / "landing")
    landing.land_all()
    build = TopicBuild(spark, landing, tmp_path / "target", select=PLACES)
    build.hand_off()
    assert build.content() == everything(topic)


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


def test_a_partition_that_appears(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    topic.create()
    landing = Landing(topic, tmp_path / "landing")
    topic.send(numbered(4))
    landing.land_all()
    build = TopicBuild(spark, landing, tmp_path / "target", select=PLACES)
    build.plan()
    topic.grow(3)
    for partition in (1, 2):
        topic.send(numbered(4, partition))
    landing.skip({2: 2})
    landing.land({0: 4, 1: 3, 2: 3})
    build.snapshot()
    landing.land_all()
    for phase in (build.consume_log, build.catch_up, build.verify, build.finish):
        state = phase()
    assert build.content() == everything(topic)
    assert {n: split.read for n, split in state.topic.items()} == {0: 4, 1: 0, 2: 3}


def test_partitions_that_appear_after_the_hand_off(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    """One lands from its first record on, and is followed. Of the other one the landing table has not all."""
    topic.create()
    landing = Landing(topic, tmp_path / "landing")
    topic.send(numbered(4))
    landing.land_all()
    build = TopicBuild(spark, landing, tmp_path / "target", select=PLACES)
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


def test_a_build_that_is_paused_before_its_first_round_reads_nothing(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    topic.create()
    landing = Landing(topic, tmp_path / "landing")
    topic.send(numbered(4))
    landing.land_all()
    build = TopicBuild(spark, landing, tmp_path / "target", select=PLACES)
    plan, control, shell = build.plan().plan, ControlFolder.beside(build.target), Shell(spark, build.target)
    control.order(plan.build, Command(Verb.PAUSE))
    attempt, answer, paused = run(SnapshotTask(0, 1, build.size), build.attempt()), None, 0
    with pytest.raises(StopIteration):
        while True:
            effect = attempt.send(answer)
            if isinstance(effect, fx.Pause):
                assert sum(split.read for split in build.reader.state().topic.values()) == 0
                control.order(plan.build, Command(Verb.RESUME))
                answer, paused = None, paused + 1
            else:
                answer = shell.answer(effect)
    assert paused == 1 and build.content() == everything(topic)


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


def test_history_from_a_time_on(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    topic.create()
    landing = Landing(topic, tmp_path / "landing")
    topic.send([Record(b"%d" % n, timestamp=1_700_000_000_000 + n * 60_000) for n in range(6)])
    landing.land_all()
    since = "2023-11-14T22:15:20Z"  # two minutes after the first record
    build = TopicBuild(spark, landing, tmp_path / "target", select=PLACES, topic={"first": since})
    build.hand_off()
    assert build.content() == everything(topic)[2:]


def test_a_topic_alone_is_read_to_its_pinned_end_and_a_stream_goes_on(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    topic.create(partitions=2)
    landing = Landing(topic, tmp_path / "unused")
    topic.send(numbered(5))
    build = TopicBuild(spark, landing, tmp_path / "target", source=None, select=PLACES)
    build.plan()
    topic.send(numbered(3, 0, first=5) + numbered(2, 1))
    for phase in (build.snapshot, build.consume_log, build.catch_up, build.verify, build.finish):
        state = phase()
    assert build.content() == everything(topic)[:5]
    assert state.certificate is not None and state.certificate.rows == 5
    topic.grow(3)
    topic.send(numbered(1, 2))
    rows = follow(spark, build.target).selectExpr(*PLACES)
    writer = rows.writeStream.format("delta").option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start(build.target).awaitTermination()
    assert build.content() == everything(topic)


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
