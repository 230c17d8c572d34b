"""The broker as a process: it begins, ends, dies and comes back."""

from __future__ import annotations

from contextlib import closing

import pytest
from confluent_kafka import Consumer, KafkaException
from confluent_kafka.admin import AdminClient

from demo.kafka.broker import Broker, BrokerError
from demo.kafka.topic import Record


def values(topic):
    return [record.value() for record in topic.records()]


@pytest.mark.soak
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_what_was_written_is_there_after_a_restart(broker, topic, end):
    topic.create()
    topic.send([Record(b"one")])
    getattr(broker, end)()
    broker.start()
    topic.send([Record(b"two")])
    assert values(topic) == [b"one", b"two"]


@pytest.mark.soak
def test_a_paused_broker_answers_nobody_until_it_goes_on(broker, topic):
    topic.create()
    broker.pause()
    try:
        with pytest.raises(KafkaException, match=r"timed out|Timed out|transport"):
            AdminClient({"bootstrap.servers": broker.servers}).list_topics(timeout=1)
    finally:
        broker.resume()
    topic.send([Record(b"one")])
    assert values(topic) == [b"one"]


@pytest.mark.soak
def test_a_block_ends_the_broker_even_if_it_is_paused(tmp_path):
    with Broker(tmp_path / "new") as broker:
        process = broker._running
        broker.pause()
    assert process.poll() is not None
    broker.stop()
    with pytest.raises(BrokerError, match="not running"):
        broker.pause()


def test_a_broker_that_cannot_begin_says_why(tmp_path):
    (tmp_path / "server.properties").write_text("process.roles=nothing")
    with pytest.raises(BrokerError, match=r"process\.roles"):
        Broker(tmp_path).start()


@pytest.mark.parametrize("protocol", [pytest.param("classic", marks=pytest.mark.soak), "consumer"])
def test_a_group_of_consumers_shares_a_topic(broker, topic, protocol):
    topic.create()
    topic.send([Record(b"one")])
    group = {"group.id": topic.name, "group.protocol": protocol, "auto.offset.reset": "earliest"}
    with closing(Consumer({"bootstrap.servers": broker.servers, **group})) as consumer:
        consumer.subscribe([topic.name])
        record = consumer.poll(30)
        assert record is not None and record.value() == b"one"
        (committed,) = consumer.commit(asynchronous=False)
        assert committed.offset == 1
