"""A build of a topic is proven by what Kafka still has; what it has no more is counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame

from airflow_backfill.core.attempts.goals import RepairGoal
from airflow_backfill.core.errors import KafkaLost, VerificationFailed
from airflow_backfill.core.kafka.state import Backfilling
from airflow_backfill.core.splits.partitions import splits_of
from airflow_backfill.core.state import effect as fx
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.proof_kind import ProofKind
from airflow_backfill.core.values.round_size import RoundSize
from airflow_backfill.core.values.row_hash import RowHash
from airflow_backfill.spark.kafka.records import TopicRecords
from airflow_backfill.spark.run.interpreter import Shell
from demo.kafka.topic import COMPACTED, Record, Topic
from tests.spark.explain.test_topic_explanation import explained
from tests.spark.kafka.test_ordered_topic import names, ordered, record
from tests.spark.kafka.topics import Landing, MakeBuild, TopicBuild, numbered

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("connection")]


def test_a_hole_between_history_and_landing_fails_the_proof(
    topic: Topic, landing: Landing, make_build: MakeBuild
) -> None:
    """The ingestion begins with records that came after the plan, so that some were history to nobody."""
    topic.create(partitions=2)
    for partition in range(2):
        topic.send(numbered(10, partition))
    build = make_build()
    build.plan()
    build.first_rounds(1)
    for partition in range(2):
        topic.send(numbered(8, partition, first=10))
    landing.skip({0: 10, 1: 13})
    landing.land_all()
    build.snapshot()
    build.apply_log()
    with pytest.raises(VerificationFailed, match="3 records are in Kafka") as failed:
        build.verify()
    assert {name: failed.value.data[name] for name in ("partition", "first", "last")} == {
        "partition": 1, "first": 10, "last": 12,
    }  # fmt: skip


@pytest.mark.soak
def test_what_was_compacted_since_is_counted_and_the_rest_is_compared(
    topic: Topic, landing: Landing, make_build: MakeBuild
) -> None:
    """Every record is a row, and some of them are nowhere else any more."""
    topic.create(config=COMPACTED)
    topic.send(numbered(5) + numbered(5))
    landing.skip({0: 9})
    build = make_build()
    build.plan()
    build.first_rounds(1)
    landing.land_all()
    topic.compact()
    build.snapshot()
    state = build.prove()
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


@pytest.mark.soak
def test_what_retention_took_since_is_counted_and_the_rest_is_compared(
    topic: Topic, landing: Landing, make_build: MakeBuild
) -> None:
    """Of the keys that are left the last record is known, be it a tombstone."""
    topic.create()
    paid = [(0, b"0"), (1, b"1"), (2, b"2"), (3, b"3"), (4, b"4"), (5, b"5"), (4, None), (5, b"70")]
    topic.send([Record(value, b'{"id": %d}' % key) for key, value in paid])
    landing.skip({0: 7})
    landing.land_all()
    build = make_build(key=["id"], select=["id", "value"], topic={"key": "json:id BIGINT", "value": "string"})
    build.read()
    topic.truncate(3)
    state = build.prove()
    assert state.certificate is not None and (state.certificate.gone, state.certificate.rows) == (3, 5)
    _assert_found(
        build,
        state,
        f"UPDATE delta.`{build.target}` SET value = '5' WHERE id = 5",
        f"DELETE FROM delta.`{build.target}` WHERE id = 3",
        f"INSERT INTO delta.`{build.target}` VALUES (4, '4')",
    )


@pytest.mark.soak
def test_last_values_of_which_nobody_has_the_records_are_proven_without_them_and_not_repaired(
    topic: Topic, landing: Landing, make_build: MakeBuild
) -> None:
    """Retention overtook the build: what was read before is not in the landing table, which stands in for the rest."""
    topic.create()
    topic.send([Record(b"v%d" % n, b'{"id": %d}' % n) for n in range(20)])
    landing.skip({0: 5})
    landing.land_all()
    build = make_build(key=["id"], select=["id", "value"], topic={"key": "json:id BIGINT", "value": "string"})
    build.size = RoundSize(rows=5)
    build.plan()
    build.first_rounds(1)
    topic.truncate(8)
    build.snapshot()
    build.apply_log()
    with pytest.raises(KafkaLost, match="cannot be compared"):
        build.run(RepairGoal())
    assert len(build.content()) == 20
    state = build.verify()
    assert state.certificate is not None and (state.certificate.gone, state.certificate.rows) == (5, 20)
    with pytest.raises(VerificationFailed):
        _prove_after(build, state, f"DELETE FROM delta.`{build.target}` WHERE id = 6")


@pytest.mark.soak
@pytest.mark.parametrize("compacted", [False, True])
def test_a_row_stands_if_the_last_record_of_its_key_is_gone(
    topic: Topic, landing: Landing, make_build: MakeBuild, monkeypatch: pytest.MonkeyPatch, compacted: bool
) -> None:
    """In the order of a column an earlier offset may be later, and compaction keeps only the last offset of a key."""
    topic.create()
    gone = [record(0, 1, 100, "new"), record(0, 2, 100, None), record(0, 3, 100, "new")]
    older = [record(0, 1, 50, "older"), record(0, 2, 50, "older"), record(0, 3, 50, None)]
    topic.send([*gone, *older, record(0, 4, 50, "compared"), record(0, 5, 50, None)])
    landing.skip({0: 7})
    landing.land_all()
    build = ordered(make_build)
    build.read()
    build.apply_log()
    if compacted:
        _compact(monkeypatch, before=3)
    else:
        topic.truncate(3)
    with pytest.raises(KafkaLost):
        build.run(RepairGoal())
    assert names(build) == {1: "new", 3: "new", 4: "compared"}
    state = build.verify()
    assert state.certificate is not None and (state.certificate.gone, state.certificate.rows) == (3, 3)
    of_another, at = "SELECT 5, name, timestamp, partition, offset", "timestamp = timestamp - INTERVAL 10 SECONDS"
    wrong = [
        f"INSERT INTO delta.`{build.target}` {of_another} FROM delta.`{build.target}` WHERE id = 4",
        f"DELETE FROM delta.`{build.target}` WHERE id = 4",
        f"UPDATE delta.`{build.target}` SET {at} WHERE id = 4",
    ]
    _assert_found(build, state, *(wrong[:1] if compacted else wrong))


@pytest.mark.soak
def test_a_row_stands_if_only_an_undecodable_record_of_its_key_is_left(
    topic: Topic, landing: Landing, make_build: MakeBuild, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    topic.create(config={"cleanup.policy": "compact"})
    topic.send([Record(b"1", b'{"id": 1}'), Record(b"\xff", b'{"id": 1}'), Record(b"2", b'{"id": 2}')])
    landing.skip({0: 2})
    landing.land_all()
    dead = f"dead_letters:{tmp_path / 'dead'}"
    spec = {"key": "json:id BIGINT", "value": "string", "undecodable": dead}
    build = make_build(key=["id"], select=["id", "value"], topic=spec)
    build.read()
    build.apply_log()
    _compact(monkeypatch, before=1)
    with pytest.raises(KafkaLost):
        build.run(RepairGoal())
    assert build.content() == [(1, "1"), (2, "2")]
    assert explained(build, "id=1")["verdict"] == "unknown" and explained(build, "id=2")["verdict"] == "equal"
    state = build.verify()
    assert state.certificate is not None and (state.certificate.gone, state.certificate.rows) == (1, 2)
    with pytest.raises(VerificationFailed):
        _prove_after(build, state, f"DELETE FROM delta.`{build.target}` WHERE id = 2")


def _compact(monkeypatch: pytest.MonkeyPatch, before: int) -> None:
    """From now on Kafka has no record before this offset, although its log still begins at 0."""
    read = TopicRecords.read

    def left(self: TopicRecords, ranges: Any, **how: Any) -> DataFrame:
        return read(self, ranges, **how).where(f"offset >= {before}")

    monkeypatch.setattr(TopicRecords, "read", left)


@pytest.mark.soak
@pytest.mark.parametrize("keyed", [False, True], ids=["rows", "last values"])
def test_retention_that_goes_on_while_a_proof_reads_does_not_end_it(
    topic: Topic, landing: Landing, make_build: MakeBuild, monkeypatch: pytest.MonkeyPatch, keyed: bool
) -> None:
    """It is tried again without what was taken, and without four times as much, which may be taken meanwhile."""
    topic.create()
    topic.send([Record(b"v%d" % n, b'{"id": %d}' % n) for n in range(40)])
    landing.skip({0: 39})
    landing.land_all()
    keys = {"key": ["id"], "select": ["id", "value"], "topic": {"key": "json:id BIGINT", "value": "string"}}
    build = make_build(**(keys if keyed else {}))
    build.read()
    state = build.apply_log()
    records, retention = TopicRecords.read, [3, 5, 7]

    def expiring(self: TopicRecords, ranges: Any, **how: Any) -> DataFrame:
        """Retention comes when it is decided what is read, and nothing is read yet."""
        frame = records(self, ranges, **how)
        if retention:
            topic.truncate(retention.pop(0))
        return frame

    with monkeypatch.context() as patched:
        patched.setattr(TopicRecords, "read", expiring)
        state = build.verify()
    assert retention == [] and state.certificate is not None
    assert (state.certificate.gone, state.certificate.rows) == (15, 40)
    with pytest.raises(VerificationFailed):
        _prove_after(build, state, f"DELETE FROM delta.`{build.target}` WHERE {'id' if keyed else 'offset'} = 20")


@pytest.mark.soak
@pytest.mark.parametrize(
    ("committed", "late"),
    [(False, True), (False, False), (True, False)],
)
def test_a_tombstone_that_is_compacted_away_before_its_round_is_taken_from_the_landing_table(
    topic: Topic, landing: Landing, make_build: MakeBuild, tmp_path: Path, committed: bool, late: bool
) -> None:
    """Its row is in the target already. That is not proven either, once retention has taken some of the records.
    ``late``: the topic is compacted only since the plan.
    """
    policy = {"cleanup.policy": "compact,delete", "delete.retention.ms": "0"}
    topic.create(config={**COMPACTED, **policy, **({"cleanup.policy": "delete"} if late else {})})

    def paid(key: int, value: bytes | None) -> Record:
        return Record(value, b'{"id": %d}' % key)

    topic.send([paid(1, b"1"), paid(2, b"2"), paid(3, b"3"), paid(4, b"4")])
    landing.skip({0: 4})
    build = make_build(
        key=["id"],
        select=["id", "value"],
        topic={"key": "json:id BIGINT", "value": "string", "undecodable": f"dead_letters:{tmp_path / 'dead'}"},
    )
    build.size = RoundSize(rows=3)
    build.plan()
    topic.configure(policy)
    build.first_rounds(1)
    assert isinstance(splits_of(build.reader.state().positions)[0].state, Backfilling), (
        "the rest of the history is read later"
    )
    changes = [paid(2, None), paid(3, b"4")]
    if committed:
        with topic.transaction(changes):
            # Kafka compacts nothing of an open transaction. Later its cleaner may be faster than an ingestion.
            landing.committed = False
            landing.land({0: 6})
            landing.committed = True
        with topic.transaction([paid(1, None), paid(4, b"5")], commit=False):
            pass
    else:
        topic.send(changes)
    landing.land_all()
    while any(message.value() is None for message in topic.records()):
        topic.compact()
    build.snapshot()
    landing.land_all()
    build.apply_log()
    assert [row for row in build.content() if row[0] is not None] == [(1, "1"), (3, "4"), (4, "4")]
    state = build.verify()
    topic.truncate(1)
    with pytest.raises(VerificationFailed, match="1 only in the target"):
        _prove_after(build, state, f"INSERT INTO delta.`{build.target}` VALUES (2, '2')")


def _assert_found(build: TopicBuild, state: BuildState, *statements: str) -> None:
    """After each of these changes of the target, which are undone, its proof fails."""
    for statement in statements:
        with pytest.raises(VerificationFailed):
            _prove_after(build, state, statement)


def _prove_after(build: TopicBuild, state: BuildState, statement: str) -> None:
    """Prove a version of the target that somebody else has changed, which no task would get to; and change it back."""
    assert state.certificate is not None
    build.spark.sql(statement)
    shell = Shell(build.spark, build.target)
    shell.answer(fx.ReadPlan(state.plan.build))
    try:
        version = shell.answer(fx.ReadHead())
        wanted = (state.certificate.epoch, version, state.positions, RowHash.TYPED, ProofKind.FULL)
        shell.answer(fx.VerifyTarget(*wanted))
    finally:
        build.spark.sql(f"RESTORE delta.`{build.target}` TO VERSION AS OF {state.certificate.target_version}")
