"""Progress is what is committed, looked at again and again while the application runs, however long a round takes."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest

from airflow_backfill.builds.glance import glance
from airflow_backfill.builds.status import status
from airflow_backfill.core.attempts.goals import SnapshotGoal
from airflow_backfill.core.state.effect import CommitRecord
from airflow_backfill.core.values.round_size import RoundSize
from airflow_backfill.hooks.ledger import LedgerHook
from airflow_backfill.ledger.clock import now_ms
from airflow_backfill.ledger.open_source import watch_source
from airflow_backfill.notifications.warnings import Warnings
from airflow_backfill.operators import progress
from airflow_backfill.operators.progress import PROGRESS, Reporter
from tests.airflow.without_spark import built, commit_to, make_source
from tests.failing import Expiring
from tests.ledger.json_target import JsonBuild

LOG = logging.getLogger("progress")


class Store(dict):
    """A state store that says when something new was written."""

    def __init__(self):
        super().__init__()
        self.news = threading.Condition()

    def set(self, key, value, *, retention=None):
        with self.news:
            self[key] = value
            self.news.notify_all()

    def wait_for(self, wanted):
        with self.news:
            assert self.news.wait_for(lambda: wanted(self.get(PROGRESS)), timeout=20), self.get(PROGRESS)


@pytest.fixture(autouse=True)
def often(monkeypatch):
    monkeypatch.setattr(progress, "INTERVAL_SECONDS", 0.05)


def reporter(target, store, connection=None):
    warnings = Warnings({"task_state_store": store}, LOG, None, None)
    return Reporter(LedgerHook(connection), str(target), store, LOG, warnings, lambda: None)


def test_the_lag_is_refreshed_during_a_round_that_does_not_end(source, target):
    state = built(source, target, "plan")
    store = Store()
    with reporter(target, store):
        store.wait_for(lambda seen: seen and seen["lag"]["epochs"] == 0)
        commit_to(source, 2)
        store.wait_for(lambda seen: seen["lag"]["epochs"] == 2)
        commit_to(source, 1)
        store.wait_for(lambda seen: seen["lag"]["epochs"] == 3)
    assert store[PROGRESS]["rows"]["consuming_snapshot"] == 0
    assert built(source, target).proven == state.proven


def test_the_connection_is_looked_up_again_when_its_session_token_has_expired(source, target, monkeypatch):
    built(source, target, "plan")
    lake, store = Expiring(monkeypatch), Store()
    with reporter(target, store, "lake"):
        store.wait_for(lambda seen: seen and seen["lag"]["epochs"] == 0)
        lake.rotate()
        commit_to(source, 2)
        store.wait_for(lambda seen: seen["lag"]["epochs"] == 2)


def test_what_is_not_committed_is_not_shown(source, target):
    """A round's rows show up with its commit, and a number that a task only means to reach never does."""
    built(source, target, "plan")
    store = Store()
    with reporter(target, store):
        store.wait_for(lambda seen: seen and seen["phase"] == "snapshot")
        assert store[PROGRESS]["read"]["done"] == 0
        state = built(source, target, "snapshot")
        store.wait_for(lambda seen: seen["read"]["done"] == 4)
    assert store[PROGRESS]["rows"]["consuming_snapshot"] == state.totals.snapshot_rows > 0
    assert store[PROGRESS]["target_version"] == state.proven


def test_trouble_with_progress_is_no_trouble_of_the_task(source, target, caplog):
    built(source, target, "plan")

    class Broken(Store):
        def set(self, key, value, *, retention=None):
            raise ConnectionError("the API server is gone")

    with reporter(target, Broken()):
        pass
    assert "progress could not be reported" in caplog.text


def test_a_warning_when_the_source_will_soon_not_keep_what_is_needed(tmp_path, target, caplog):
    source = make_source(tmp_path / "source", {"delta.logRetentionDuration": "interval 1 minutes"})
    built(source, target, "plan")
    commit_to(source, at=0)
    with reporter(target, Store()):
        pass
    assert caplog.text.count("stays readable for 0 seconds more") == 1


@pytest.mark.parametrize(("round_minutes", "condition"), [(20, "working"), (5, "stuck")])
def test_a_build_with_long_rounds_is_not_stuck_wherever_it_is_shown(
    round_minutes: int, condition: str, tmp_path: Path
) -> None:
    build, now = JsonBuild(tmp_path), now_ms()
    build.plan()
    begun = now - (3 * round_minutes + 40) * 60_000
    build.write_ms, build.now = round_minutes * 60_000, begun
    document = {"task": "snapshot", "at": begun}
    me = build.reader.draw_attempt(document)
    build.start(SnapshotGoal(0, 1, RoundSize(1, 10**6)), me).until(CommitRecord, nth=4)
    build.reader.control.announce(me, {"at": begun, "alive": now})
    last = build.state().newest
    assert last is not None and 30 < (now - last.at) / 60_000 < 80, "more than the half hour after which one is stuck"
    warnings = Warnings({}, LOG, None, None)
    reporter = Reporter(LedgerHook(None), build.location, {}, LOG, warnings, lambda: None, (me, document))
    state = build.state()
    told = reporter.progress(state, watch_source(state.plan).glance(state.reached), now)
    for found in (status(build.location), glance(build.location), told):
        assert found["health"]["condition"] == condition, found["health"]["why"]
