"""What a topic can go through: the cases that the reading side has to get right."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from demo.kafka.topic import COMPACTED, Record


def offsets(topic, partition=0, **how):
    return [record.offset() for record in topic.records(partition, **how)]


def test_records_come_back_as_they_were_sent(topic):
    topic.create(2)
    sent = [
        Record(b"value", b"key", timestamp=1_700_000_000_000, headers=[("a", b"1"), ("a", None), ("b", b"")]),
        Record(None, b"key"),
        Record(b"", None),
    ]
    topic.send(sent)
    topic.send([Record(b"there", partition=1)])
    found = topic.records()
    assert [(record.offset(), record.value(), record.key()) for record in found] == [
        (0, b"value", b"key"),
        (1, None, b"key"),
        (2, b"", None),
    ]
    assert found[0].headers() == sent[0].headers
    assert found[0].timestamp()[1] == sent[0].timestamp
    assert [record.value() for record in topic.records(1)] == [b"there"]


def test_a_transaction_shows_when_it_is_committed_and_never_if_it_is_aborted(topic):
    topic.create()
    with topic.transaction([Record(b"aborted")], commit=False):
        pass
    with topic.transaction([Record(b"committed")]):
        topic.send([Record(b"plain")])
        assert offsets(topic) == []
        assert topic.bounds() == (0, 2)
        assert offsets(topic, committed=False) == [0, 2, 3]
        assert topic.bounds(committed=False) == (0, 4)
    assert [(record.offset(), record.value()) for record in topic.records()] == [(2, b"committed"), (3, b"plain")]
    assert topic.bounds() == (0, 5)


def test_compaction_makes_holes(topic):
    topic.create(config=COMPACTED)
    topic.send(Record(str(n).encode(), key=b"%d" % (n % 3)) for n in range(10))
    topic.compact()
    assert offsets(topic) == [7, 8, 9, 10]
    assert topic.bounds() == (0, 11)
    topic.send([Record(None, key=b"1")])
    topic.compact()
    assert 7 not in offsets(topic)


def test_records_can_be_deleted_up_to_an_offset(topic):
    topic.create(2)
    topic.send(Record(b"x") for _ in range(10))
    topic.truncate(4)
    assert topic.bounds() == (4, 10)
    assert offsets(topic) == [4, 5, 6, 7, 8, 9]
    assert topic.bounds(1) == (0, 0)


def test_every_partition_of_a_new_topic_answers_at_once(topic):
    """The broker lists partitions before it leads them: with twenty of them, one that is asked then still refuses."""
    topic.create(20)
    assert topic.bounds(19) == (0, 0)


def test_a_topic_can_grow(topic):
    topic.create()
    topic.grow(3)
    topic.send([Record(b"x", partition=2)])
    assert offsets(topic, 2) == [0]


def test_a_topic_that_is_created_again_begins_at_zero(topic):
    topic.create()
    topic.send(Record(b"x") for _ in range(3))
    topic.delete()
    topic.create()
    assert topic.bounds() == (0, 0)
    topic.send([Record(b"new")])
    assert [(record.offset(), record.value()) for record in topic.records()] == [(0, b"new")]


def test_a_topic_that_is_not_there_is_an_error(topic):
    with pytest.raises(KafkaException) as refused:
        topic.bounds()
    assert refused.value.args[0].code() == KafkaError._NOENT
