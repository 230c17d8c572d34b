"""A wait may outlast the settings of its connection."""

from __future__ import annotations

import json
import shutil

import pytest
from airflow.sdk import BaseHook

from airflow_backfill.hooks import ledger as ledger_hook
from airflow_backfill.ledger import open_store
from airflow_backfill.ledger.local_store import LocalStore
from airflow_backfill.triggers.finish import FinishTrigger
from tests.airflow.without_spark import built


@pytest.fixture
def lake(monkeypatch, tmp_path):
    """Stores at a place that the connection ``lake`` names. Returns what names another one."""

    def store(url, spark, options):
        return LocalStore(url.replace(str(tmp_path), (options or {}).get("aws_endpoint", str(tmp_path)), 1))

    def name(place):
        extra = {"aws_endpoint": str(place)}
        monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "table_backfill", "extra": extra}))

    monkeypatch.setattr(open_store, "_open", store)
    name(tmp_path)
    return name


@pytest.fixture
def waits(source, target):
    built(source, target, "plan", "snapshot", "consume_log")
    trigger = FinishTrigger(target=str(target), build=None, ledger_conn_id="lake", poke_interval=9.0)
    return lambda: not trigger.due()


def test_it_follows_the_connection_to_another_store(lake, waits, source, target, tmp_path, monkeypatch):
    """The former store still answers, so no error says that the build goes on elsewhere."""
    assert waits()
    moved = tmp_path / "moved"
    for folder in (source, target, target.with_name(f"{target.name}.backfill")):
        shutil.copytree(folder, moved / folder.name)
    built(source, moved / target.name, "catch_up", "verify", "finish")
    lake(moved)
    assert waits()
    monkeypatch.setattr(ledger_hook, "LOOK_SECONDS", 0)
    assert not waits()


def test_it_goes_on_while_its_connection_cannot_be_looked_up(lake, waits, target, source, monkeypatch):
    assert waits()
    monkeypatch.setattr(ledger_hook, "LOOK_SECONDS", 0)
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "table_backfill", "extra": "half a sett"}))
    assert waits()
    monkeypatch.delenv("AIRFLOW_CONN_LAKE")
    assert waits()
    monkeypatch.setattr(BaseHook, "get_connection", lambda conn_id: 1 / 0)
    assert waits()
    built(source, target, "catch_up", "verify", "finish")
    assert not waits()


def test_it_looks_the_connection_up_rarely(lake, waits, monkeypatch):
    asked = []
    found = BaseHook.get_connection
    monkeypatch.setattr(BaseHook, "get_connection", lambda conn_id: [asked.append(conn_id), found(conn_id)][1])
    assert all(waits() for _ in range(9))
    assert asked == ["lake"]
