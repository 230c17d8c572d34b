"""Which metrics a build sends, under which names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowFailException
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics import stats_utils

from airflow_backfill.core.errors import DuplicateKey
from airflow_backfill.core.reports.summary import told
from airflow_backfill.failure import decided
from airflow_backfill.hooks.ledger import LedgerHook
from airflow_backfill.notifications.metrics import gauges, tell_attempt, tell_error, tell_progress
from tests.airflow.without_spark import built, commit_to, make_source
from tests.notifications.statsd import serving

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
HOUR_MS = 3_600_000


@pytest.fixture
def server(monkeypatch):
    """A StatsD server to which this process sends, as the process of a task would."""
    with serving() as server:
        for name, value in server.settings().items():
            monkeypatch.setenv(name, value)
        stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=True)
        yield server
    monkeypatch.undo()
    stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=True)


def progress(source, target, now):
    hook, state = LedgerHook(), built(source, target, "plan", "snapshot")
    return told(state, hook.watcher(state.plan).view(state.reached), None, now)


def test_numbers_of_a_build_that_lags(tmp_path, target):
    kept = {"delta.logRetentionDuration": "interval 3 hours", "delta.deletedFileRetentionDuration": "interval 3 hours"}
    source = make_source(tmp_path / "source", kept)
    built(source, target, "plan", "snapshot")
    commit_to(source, 2, at=10_000)
    found = dict(gauges(progress(source, target, 10_000_000 + HOUR_MS)))
    assert (found["pending_epochs"], found["pending_rows"]) == (2, 2)
    assert (found["pending_age_seconds"], found["retention_left_seconds"]) == (3600, 7200)
    assert (found["rows"], found["certified"]) == (7, 0)


def test_an_unknown_number_is_left_out(source, target):
    found = dict(gauges(progress(source, target, 0)))
    assert "retention_left_seconds" not in found
    assert found["pending_epochs"] == 0


def test_names_with_and_without_tags(server, source, target, monkeypatch):
    seen = progress(source, target, 0)
    tell_progress({**seen, "name": "orders.eu"})
    assert server.received()["rows.orders__eu"] == ["7|g"]
    monkeypatch.setenv("AIRFLOW__METRICS__LEGACY_NAMES_ON", "False")
    tell_progress({**seen, "name": "orders.eu"})
    assert "rows.orders__eu" not in server.received()


def test_errors_are_counted_by_code(server, context):
    with pytest.raises(AirflowFailException), decided(context):
        raise DuplicateKey("two rows with id 7")
    assert server.received() == {"errors": ["1|c"], "errors.KEY_DUPLICATE": ["1|c"]}


def test_a_metric_that_cannot_be_sent_disturbs_nobody(monkeypatch, caplog):
    def broken(*arguments, **options):
        raise OSError("no route to host")

    monkeypatch.setattr(stats, "incr", broken)
    tell_error("FENCED")
    assert "metric errors could not be sent: no route to host" in caplog.text


def test_the_page_lists_every_metric(server, source, target):
    tell_progress({**progress(source, target, 0), "rows_per_second": 1.5, "name": "NAME"})
    tell_attempt("DAG", "TASK")
    tell_error("CODE")
    sent = {name.partition(".")[0] for name in server.received()} | {"retention_left_seconds"}
    listed = re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(sent)
