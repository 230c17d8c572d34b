"""A connection to Kafka reaches an application by its environment, and is refused before that if it is of no use."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from airflow_backfill.core.errors import KafkaOption
from airflow_backfill.core.kafka.connection import client_options
from airflow_backfill.hooks.kafka import kafka_environment, told_kafka

EXTRA = {
    "bootstrap.servers": "kafka:9092",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "reader",
    "sasl.password": 'a "canary"',
}


def connect(monkeypatch, extra) -> str:
    monkeypatch.setenv("AIRFLOW_CONN_TOPICS", json.dumps({"conn_type": "kafka", "extra": extra}))
    return "topics"


def test_the_environment_holds_what_the_application_understands(monkeypatch):
    found = kafka_environment(connect(monkeypatch, EXTRA))
    assert list(found) == ["AIRFLOW_BACKFILL_KAFKA"]
    assert client_options(found["AIRFLOW_BACKFILL_KAFKA"]) == client_options(json.dumps(EXTRA))


def test_a_connection_of_no_use_fails_the_task_and_not_the_application(monkeypatch):
    with pytest.raises(KafkaOption, match=r"group\.id") as refused:
        kafka_environment(connect(monkeypatch, {**EXTRA, "group.id": "canary"}))
    assert "canary" not in str(refused.value)


@pytest.mark.parametrize("dag", ["../other", "..", "a/b", "a?key=x", None])
def test_airflow_is_not_asked_about_what_is_no_id(dag):
    """Its client would put the id into the path of a request."""
    asked = []
    ti = SimpleNamespace(xcom_pull=lambda *ids, **_: asked.append(ids))
    attempt = {
        "dag_id": dag,
        "task_id": "orders.snapshot",
        "run_id": "manual__2026-11-26T12:00:00+00:00",
        "map_index": -1,
    }
    for one in (attempt, {**attempt, "dag_id": "orders"}, {}):
        assert told_kafka({"ti": ti}, "target", [one]) is None
    assert asked == [("orders.snapshot", "orders", "kafka")]
