"""Records that Kafka has lost: the landing table has them, or they are named, or passed over and counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame

from airflow_backfill.builds.ordering import ordered
from airflow_backfill.core.errors import KafkaLost, NotAllowedNow, SourceReplaced, TopicMissing
from airflow_backfill.core.reports.summary import told, unread
from airflow_backfill.core.splits.partitions import splits_of
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.core.values.round_size import RoundSize
from airflow_backfill.ledger.reader import BuildReader
from airflow_backfill.spark.kafka import broker
from airflow_backfill.spark.kafka.landing_table import LandingTable
from airflow_backfill.spark.kafka.records import TopicRecords
from demo.kafka.topic import COMPACTED, Record, Topic
from tests.spark.kafka.topics import Landing, MakeBuild, everything, numbered, row

DAY_MS = 86_400_000
pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("connection")]


def test_history_that_is_lost_stops_by_name(topic: Topic, make_build: MakeBuild) -> None:
    topic.create()
    topic.send(numbered(6))
    build = make_build()
    build.plan()

    def created_again() -> None:
        topic.create()
        topic.send(numbered(9))

    for lose, error in (
        (lambda: topic.truncate(2), KafkaLost),
        (topic.delete, TopicMissing),
        (created_again, SourceReplaced),
    ):
        lose()
        with pytest.raises(error):
            build.snapshot()
    assert build.content() == []


def test_it_is_known_how_long_kafka_keeps_what_is_unread(
    topic: Topic, make_build: MakeBuild, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of the plan, then as of each round; also while the build is paused, and by what was configured meanwhile."""
    monkeypatch.setattr(broker, "AGE_SECONDS", 60)  # a busy machine needs longer to read the first record
    topic.create(config={"retention.ms": str(7 * DAY_MS)})
    topic.send(numbered(40))
    build = make_build()
    build.size = RoundSize(rows=10)
    build.plan()
    written = topic.records(0)[0].timestamp()[1]

    def told_at(now: int) -> dict[str, int] | None:
        state = BuildReader(build.target).state()
        found = unread(state, now)
        assert told(state, None, None, now)["history_left"] == (None if found is None else found["readable"])
        return found

    assert told_at(written + DAY_MS) == {"readable": 6 * DAY_MS, "kept": 7 * DAY_MS}
    topic.configure({"retention.ms": str(2 * DAY_MS)})
    build.first_rounds(1)
    assert (told_at(written) or {})["kept"] == 2 * DAY_MS
    topic.configure({"retention.ms": "-1"})
    build.first_rounds(2)
    assert told_at(written) is None, "for ever"
    build.snapshot()
    assert told_at(written) is None


@pytest.mark.soak
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


def test_landed_rows_whose_files_are_deleted_while_they_are_read_are_read_again(
    topic: Topic, landing: Landing, make_build: MakeBuild, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic.create()
    topic.send(numbered(20))
    landing.land({0: 10})
    landing.land_all()
    expected = everything(topic)
    topic.truncate(10)
    build = make_build()
    build.plan()
    within, planned = LandingTable.within, DeltaTable(landing.table)

    def rewritten_and_vacuumed(table: LandingTable, *wanted: Any) -> DataFrame:
        rows = within(table, *wanted)
        if DeltaTable(landing.table).version() == planned.version():
            DeltaTable(landing.table).optimize.compact()
            for file in planned.file_uris():
                Path(file).unlink()
        return rows

    monkeypatch.setattr(LandingTable, "within", rewritten_and_vacuumed)
    build.snapshot()
    build.complete()
    assert build.content() == expected


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


@pytest.mark.soak
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


@pytest.mark.soak
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
