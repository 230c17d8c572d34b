"""The settings of a store come from a connection, and go nowhere else."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import ErrorType
from airflow.sdk.execution_time import supervisor, task_runner
from airflow.sdk.execution_time.comms import ErrorResponse
from airflow.sdk.execution_time.secrets.execution_api import ExecutionAPISecretsBackend

from airflow_backfill.core.errors import InvalidSpec, SourceUnavailable
from airflow_backfill.hooks.kafka import kafka_environment
from airflow_backfill.hooks.ledger import LedgerHook, store_environment

SETTINGS = {"aws_access_key_id": "key", "aws_secret_access_key": "canary", "aws_skip_signature": True}


@pytest.fixture
def connection(monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "table_backfill", "extra": SETTINGS}))
    return "lake"


def test_without_a_connection_the_environment_counts(tmp_path):
    assert LedgerHook().options is None
    assert LedgerHook().reader(str(tmp_path)).target == str(tmp_path)


def test_settings_are_the_connections_extra(connection):
    assert LedgerHook(connection).options == {name: str(value) for name, value in SETTINGS.items()}


def test_spark_finds_them_in_variables(connection):
    assert store_environment(connection) == {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "canary"}
    assert store_environment(None) == {}


def given(monkeypatch, **connection):
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "table_backfill", **connection}))
    return "lake"


def test_a_setting_without_a_value_is_none(monkeypatch):
    lake = given(monkeypatch, extra={"aws_session_token": None, "aws_endpoint": "", "aws_region": "eu-west-1"})
    assert LedgerHook(lake).options == {"aws_region": "eu-west-1"}
    assert store_environment(lake) == {"AWS_REGION": "eu-west-1"}


@pytest.mark.parametrize("extra", ["aws_region=canary", '["canary"]', '"canary"', None])
def test_settings_that_nobody_would_find_are_refused_and_not_shown(monkeypatch, extra):
    lake = given(monkeypatch, extra=extra, login="canary", password="canary")
    for look in (lambda: LedgerHook(lake).options, lambda: store_environment(lake)):
        with pytest.raises(InvalidSpec, match="ledger_conn_id: connection 'lake' must have its settings") as refused:
            look()
        assert "canary" not in str(refused.value)


def test_a_connection_without_settings_leaves_them_to_the_environment(monkeypatch):
    assert LedgerHook(given(monkeypatch)).options == {}


@pytest.mark.parametrize("nothing", ["", ["lake"]])
def test_a_template_that_names_no_connection_is_not_waited_for(nothing):
    with pytest.raises(InvalidSpec, match="ledger_conn_id: must be the id of a connection"):
        LedgerHook(nothing).reader("s3a://lake/orders")


def test_a_connection_that_airflow_does_not_find_is_asked_for_again():
    """Airflow says the same of a secrets backend that does not answer."""
    for ask in (lambda: LedgerHook("gone").options, lambda: kafka_environment("gone")):
        with pytest.raises(SourceUnavailable, match="_conn_id: Airflow has no connection 'gone'"):
            ask()


def test_a_connection_that_airflow_refuses_is_named(monkeypatch):
    """As Airflow's own backend reads the answer of its API server."""
    refusal = ErrorResponse(error=ErrorType.PERMISSION_DENIED, detail={"conn_id": "lake"})
    comms = SimpleNamespace(send=lambda asked: refusal)
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", comms, raising=False)
    monkeypatch.setattr(supervisor, "ensure_secrets_backend_loaded", lambda: [ExecutionAPISecretsBackend()])
    with pytest.raises(SourceUnavailable, match="ledger_conn_id: Airflow refuses connection 'lake' to this task"):
        store_environment("lake")


def test_settings_reach_the_store(connection):
    # The store for Google's buckets says which settings it takes, and does not repeat their values.
    with pytest.raises(InvalidSpec, match="google_") as refused:
        LedgerHook(connection).reader("gs://lake/orders")
    assert "canary" not in str(refused.value)
    assert LedgerHook(connection).delta_log("s3://lake/orders")
