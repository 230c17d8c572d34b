"""The settings of a store come from a connection, and go nowhere else."""

from __future__ import annotations

import json

import pytest

from airflow_backfill.core.errors import InvalidSpec
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


def test_settings_reach_the_store(connection):
    # The store for Google's buckets says which settings it takes, and does not repeat their values.
    with pytest.raises(InvalidSpec, match="google_") as refused:
        LedgerHook(connection).reader("gs://lake/orders")
    assert "canary" not in str(refused.value)
    assert LedgerHook(connection).delta_log("s3://lake/orders")
