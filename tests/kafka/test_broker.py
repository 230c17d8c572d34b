"""The broker as a process: it begins, ends, dies and comes back, and lets in whom it should."""

from __future__ import annotations

import time
from contextlib import closing

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from demo.kafka.broker import Broker, BrokerError
from demo.kafka.topic import Record
from tests.kafka.conftest import LOGIN


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


def sasl(password):
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": LOGIN.user,
        "sasl.password": password,
    }


AWAY = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)


def refusal(settings) -> int:
    """The first error with which a client says why: that it is not connected may come before, on a busy machine."""
    errors: list[KafkaError] = []
    client = AdminClient(
        {**settings, "error_cb": lambda error: errors.append(error) if error.code() not in AWAY else None}
    )
    deadline = time.monotonic() + 30
    while not errors:
        assert time.monotonic() < deadline
        client.poll(0.1)
    return errors[0].code()


def test_a_password_opens_the_sasl_listener_and_nothing_else_does(broker, topic):
    topic.create()
    servers = {"bootstrap.servers": broker.sasl_servers}
    assert topic.name in AdminClient({**servers, **sasl(LOGIN.password)}).list_topics(timeout=10).topics
    assert refusal({**servers, **sasl("wrong")}) == KafkaError._AUTHENTICATION
    with pytest.raises(KafkaException):
        AdminClient(servers).list_topics(timeout=1)


def test_who_trusts_the_certificate_gets_in_and_who_does_not_stays_out(broker, topic, tmp_path):
    topic.create()
    other = Broker(tmp_path, LOGIN)
    other._make_certificate()
    settings = {"bootstrap.servers": broker.tls_servers, "security.protocol": "SSL"}
    trusting = {**settings, "ssl.ca.location": str(broker.certificate)}
    assert topic.name in AdminClient(trusting).list_topics(timeout=10).topics
    assert refusal({**settings, "ssl.ca.location": str(other.certificate)}) == KafkaError._SSL


def test_a_listener_asks_for_a_password_behind_tls(broker, topic):
    topic.create()
    trusting = {"bootstrap.servers": broker.sasl_tls_servers, "ssl.ca.location": str(broker.certificate)}
    settings = {**trusting, **sasl(LOGIN.password), "security.protocol": "SASL_SSL"}
    assert topic.name in AdminClient(settings).list_topics(timeout=10).topics
    assert refusal({**settings, "sasl.password": "wrong"}) == KafkaError._AUTHENTICATION
