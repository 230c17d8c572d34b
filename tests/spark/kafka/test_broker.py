"""What the brokers say of a topic, and by which code it is known that they do not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_backfill.core.errors import BackfillError, KafkaRefused, SourceUnavailable, TopicMissing
from airflow_backfill.core.kafka.connection import client_options
from airflow_backfill.core.kafka.opening import Log
from airflow_backfill.spark.kafka import broker as asked
from demo.kafka.broker import Broker
from demo.kafka.topic import Record, Topic
from tests.kafka.conftest import LOGIN
from tests.spark.kafka.topics import numbered

pytestmark = pytest.mark.spark

NONSENSE = "-----BEGIN CERTIFICATE-----\nbm9uc2Vuc2U=\n-----END CERTIFICATE-----"


@pytest.fixture
def ask(spark: SparkSession, topic: Topic, broker: Broker) -> Any:
    """Ask behind TLS with a password; options that are None are not said."""

    def asks(unread: dict[int, int] | None = None, **changed: str | None) -> Any:
        said = {
            "bootstrap.servers": broker.sasl_tls_servers,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": LOGIN.user,
            "sasl.password": LOGIN.password,
            "ssl.ca.location": str(broker.certificate),
            **{name.replace("_", "."): value for name, value in changed.items()},
        }
        options = client_options(json.dumps({name: value for name, value in said.items() if value is not None}))
        return asked.Broker(spark, options, topic.name).ask(unread or {})

    return asks


def test_a_topic_has_an_id_and_logs_behind_tls_and_a_password(ask: Any, topic: Topic) -> None:
    topic.create(2)
    topic.send(numbered(5, 1))
    topic.truncate(2, 1)
    found = ask()
    assert found.id and found.logs == {0: Log(0, 0), 1: Log(2, 5)}


def test_it_is_known_how_old_the_first_unread_record_is(
    ask: Any, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind what is no record, too; and nothing is said where nothing is unread."""
    # A build does not wait long for it; a busy machine may need longer.
    monkeypatch.setattr(asked, "AGE_SECONDS", 60)
    topic.create(3)
    topic.send(numbered(5))
    with topic.transaction(numbered(3), commit=False):
        pass
    topic.send(numbered(2))
    with topic.transaction(numbered(3, 1), commit=False):
        pass
    (last_but_one, _) = topic.records(0)[-2:]
    found = ask({0: 5, 1: 0, 2: 0})
    assert found.oldest == {0: last_but_one.timestamp()[1]}
    nothing = ask({0: found.logs[0].end})
    assert (nothing.oldest, nothing.kept_ms) == ({}, None)


def test_a_record_without_a_time_has_no_age(ask: Any, topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record of a build cannot hold a time before 1970."""
    monkeypatch.setattr(asked, "AGE_SECONDS", 60)
    topic.create()
    topic.send([Record(b"v", timestamp=-1)])
    assert ask({0: 0}).oldest == {}


def test_a_topic_that_is_not_there_has_a_code(ask: Any) -> None:
    with pytest.raises(TopicMissing):
        ask()


def test_a_name_that_cannot_be_resolved_may_be_known_later(ask: Any) -> None:
    with pytest.raises(SourceUnavailable, match="No resolvable"):
        ask(bootstrap_servers="nowhere.invalid:9092")


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"sasl_password": "the wrong password"}, "SaslAuthenticationException"),
        ({"ssl_ca_location": None}, "SslAuthenticationException"),
        ({"ssl_ca_location": "/nowhere/ca.pem"}, "/nowhere/ca.pem"),
        ({"ssl_ca_location": None, "ssl_ca_pem": NONSENSE}, "PEM"),
        ({"bootstrap_servers": "no port"}, "no port"),
    ],
    ids=["password", "stranger", "no certificate", "nonsense", "servers"],
)
def test_what_no_retry_can_cure_says_what_is_wrong(
    ask: Any, topic: Topic, changed: dict[str, str | None], says: str
) -> None:
    topic.create()
    with pytest.raises(BackfillError, match=says) as refused:
        ask(**changed)
    assert isinstance(refused.value, KafkaRefused) and not refused.value.retry
    assert LOGIN.password not in str(refused.value) and "the wrong password" not in str(refused.value)
