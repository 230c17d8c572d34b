"""What Kafka has lost of a history: what the landing table has of it is read there, the rest stops or is counted."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from airflow_backfill.core.errors import InvalidSpec, KafkaLost
from airflow_backfill.core.kafka.offsets import Batch, Offsets
from airflow_backfill.core.kafka.opening import Expiry, Log, asked, expired, opened, reopened
from airflow_backfill.core.kafka.scan import after_read, next_range
from airflow_backfill.core.kafka.split import Split
from airflow_backfill.core.kafka.state import Backfilling, CatchingUp, Finished
from airflow_backfill.core.kafka.topic_retention import TopicExpiry, TopicRetention
from airflow_backfill.core.kafka.topic_spec import TopicSpec
from airflow_backfill.core.splits.partitions import Partitions

SKIPS = Expiry(skips=True)
READ = Split(2, Backfilling(9), 99, read=10, written=10, scanned=9, end=100)


def test_history_begins_where_the_landing_table_does() -> None:
    split = opened(2, Log(60, 120), 119, None, Expiry(Batch(0, 59, 60)))
    assert (split.state, split.scanned, split.floor, split.target, split.lost) == (Backfilling(), -1, 60, 119, 0)
    assert next_range(split, 1_000) == Offsets(0, 60)
    split, visible = after_read(split, Offsets(0, 60), Batch(0, 59, 60))
    assert visible == Offsets(0, 60) and next_range(split, 1_000) == Offsets(60, 120)
    split, visible = after_read(split, Offsets(60, 120), Batch(60, 119, 60))
    assert (visible, split.state, split.cut, split.read) == (Offsets(60, 120), Finished(), 119, 120)


def test_history_of_which_kafka_has_nothing_any_more_is_read_all_the_same() -> None:
    split = opened(2, Log(60, 60), 59, None, Expiry(Batch(20, 59, 40)))
    assert next_range(split, 1_000) == Offsets(20, 60)
    split, _ = after_read(split, Offsets(20, 60), Batch(20, 59, 40))
    assert split.state == Finished()


@pytest.mark.parametrize(
    ("kept", "missing"),
    [(Batch(0, 59, 50), 10), (Batch(0, 49, 50), 10), (Batch(30, 39, 10), 20), (Batch(58, 58, 1), 1)],
    ids=["holes", "an end that is missing", "begins in the middle", "one row"],
)
def test_what_is_missing_between_the_two_is_refused_with_its_count(kept: Batch, missing: int) -> None:
    with pytest.raises(KafkaLost) as lost:
        opened(2, Log(60, 120), 119, None, Expiry(kept))
    assert lost.value.data == {"partition": 2, "wanted": kept.least, "have": 60, "missing": missing}
    assert "topic.first" in lost.value.message and "topic.expired='skip'" in lost.value.message
    split = opened(2, Log(60, 120), 119, None, Expiry(kept, skips=True))
    assert (split.lost, split.scanned, split.floor) == (missing, kept.least - 1, 60)


@pytest.mark.parametrize(
    ("landed", "missing"), [(119, 0), (59, 0), (49, 10)], ids=["further", "up to there", "not as far"]
)
def test_of_a_compacted_topic_holes_are_no_loss_where_the_ingestion_came_past(landed: int, missing: int) -> None:
    expiry = Expiry(Batch(0, 40, 7), compacted=True, skips=True)
    assert opened(2, Log(60, 120), landed, None, expiry).lost == missing


def test_retention_that_overtakes_a_backfill_is_stood_in_for_by_what_landed() -> None:
    log = Log(40, 120)
    assert expired(READ, log) == Offsets(10, 40)
    for answer in (asked, reopened):
        split = answer(READ, log, Expiry(Batch(10, 39, 30)))
        assert (split.floor, split.lost, split.scanned, split.state) == (40, 0, 9, Backfilling(9))
        assert next_range(split, 1_000) == Offsets(10, 40) and expired(split, log) is None
        assert Split.from_json(json.loads(json.dumps(split.to_json()))) == split
    # And once more, while what was kept is still read.
    again = asked(split, Log(50, 120), Expiry(Batch(40, 49, 10)))
    assert (again.floor, again.lost) == (50, 0)


def test_what_landed_nowhere_is_passed_over_at_once() -> None:
    split = asked(READ, Log(40, 120), SKIPS)
    assert (split.scanned, split.lost, split.state) == (39, 30, Backfilling(9))
    assert next_range(split, 1_000) == Offsets(40, 100)
    assert asked(READ, Log(110, 120), SKIPS).state == CatchingUp(9)
    with pytest.raises(KafkaLost) as lost:
        asked(READ, Log(40, 120), Expiry(Batch(12, 39, 28)))
    assert lost.value.data["missing"] == 2


@pytest.mark.parametrize("kept", [Batch(90, 99, 10), Batch(0, 4, 5)], ids=["began after", "ended before"])
def test_an_ingestion_beside_the_gap_proves_nothing_of_it(kept: Batch) -> None:
    beside = Expiry(kept, compacted=True)
    with pytest.raises(KafkaLost):
        asked(READ, Log(40, 120), beside)
    once = asked(READ, Log(40, 120), replace(beside, skips=True))
    twice = asked(replace(once, scanned=59), Log(90, 120), replace(beside, skips=True))
    assert (once.lost, twice.lost) == (30, 60)
    assert Split.from_json(twice.to_json()) == twice


def test_fields_of_later_are_not_written_while_they_say_nothing() -> None:
    assert {"floor", "lost"}.isdisjoint(READ.to_json())
    moved = replace(READ, floor=40, lost=3)
    assert (moved.to_json()["floor"], moved.to_json()["lost"]) == (40, 3)
    assert Split.from_json(moved.to_json()) == moved and Split.from_json(READ.to_json()) == READ
    partitions = Partitions("id", (), "rules")
    assert "compacted" not in partitions.to_json() and not Partitions.from_json(partitions.to_json()).compacted
    assert Partitions.from_json(replace(partitions, compacted=True).to_json()).compacted


def test_a_topic_says_what_becomes_of_expired_records() -> None:
    assert not TopicSpec.parse({"name": "t"}).skips and "expired" not in TopicSpec.parse({"name": "t"}).to_json()
    skips = TopicSpec.parse({"name": "t", "expired": "skip"})
    assert skips.skips and TopicSpec.parse(skips.to_json()) == skips
    with pytest.raises(InvalidSpec, match=r"topic\.expired.*'stop' or 'skip'"):
        TopicSpec.parse({"name": "t", "expired": "ignore"})


@pytest.mark.parametrize(
    ("policy", "kept", "size", "found"),
    [
        ("delete", "1000", "-1", TopicRetention(1000, compacted=False)),
        ("compact", "1000", "500", TopicRetention(compacted=True)),
        ("compact,delete", "1000", "500", TopicRetention(1000, 500, compacted=True)),
        ("delete", "-1", "-1", TopicRetention(compacted=False)),
    ],
)
def test_what_a_topics_configuration_means(policy: str, kept: str, size: str, found: TopicRetention) -> None:
    said = {"cleanup.policy": policy, "retention.ms": kept, "retention.bytes": size}
    assert TopicRetention.of(said) == found


def test_how_long_a_history_stays() -> None:
    expiry = TopicExpiry(TopicRetention(60_000, 7), oldest=1_000_000)
    assert expiry.to_json(1_050_000) == {"seconds": 60, "bytes": 7, "seconds_left": 11 - 1}
    assert (expiry.left(2_000_000), TopicExpiry(TopicRetention(), 5).left(9)) == (0, None)
