"""What a build tells without being asked, in one run of it: metrics, warnings, its errors, and its lineage."""

from __future__ import annotations

import json

import pytest

from airflow_backfill.core.reports.way_out import WAYS_OUT
from tests.airflow.dag_files import group
from tests.airflow.notifiers import TOLD
from tests.airflow.runs import DagTests
from tests.airflow.without_spark import built, commit_to, make_source
from tests.notifications.statsd import serving

MORE = """
    on_warning_callback=warnings, default_args={"retries": 1, "retry_delay": 0, "on_failure_callback": failures},
    task_args={"gate": {"window": ("00:00", "00:00:00.000001", "UTC"), "timeout": 1}},
"""
ONE_HOUR = {"delta.logRetentionDuration": "interval 1 hours", "delta.deletedFileRetentionDuration": "interval 1 hours"}


@pytest.fixture
def told(airflow, tmp_path, target):
    """What is told of a build that is late and does not get through its gate."""
    source = make_source(tmp_path / "source", ONE_HOUR)
    built(source, target, "plan", "snapshot")
    commit_to(source, at=0)
    file = group(airflow, source, target, MORE)
    file.write_text("from tests.airflow.notifiers import *\n" + file.read_text())
    lines, events = airflow.home / "told.txt", airflow.home / "events.json"
    transport = {"type": "file", "log_file_path": str(events), "append": True}
    with serving() as server:
        airflow.environment |= server.settings(STATSD_INFLUXDB_ENABLED="True")
        airflow.environment |= {TOLD: str(lines), "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(transport)}
        # Airflow looks at these settings once in a process.
        airflow.dag_tests = DagTests(airflow.environment)
        try:
            assert airflow.run(file, "build") == ["failed"]
        finally:
            airflow.dag_tests.stop()
        metrics = server.received()
    return metrics, lines.read_text().splitlines(), [json.loads(line) for line in events.read_text().splitlines()]


def test_a_build_tells_what_matters(told, tmp_path):
    metrics, lines, events = told
    _metrics(metrics)
    _notifications(lines)
    _lineage(events, tmp_path)


def _metrics(found):
    assert found["percent,name=orders"][-1] == found["percent.orders"][-1] == "90.0|g"
    assert (found["pending_epochs.orders"][0], found["pending_epochs.orders"][-1]) == ("1|g", "0|g")
    assert (found["rows.orders"][0], found["rows.orders"][-1]) == ("7|g", "14|g")
    assert found["attempts,dag_id=build,task_id=orders.consume_log"] == ["1|c"]
    assert found["errors,code=GATE_TIMEOUT"] == ["1|c"]


def _notifications(lines):
    late, failed = lines
    assert late.startswith("orders.snapshot retention of orders: the oldest epoch that the build needs stays readable")
    assert failed == f"orders.gate GATE_TIMEOUT: {WAYS_OUT['GATE_TIMEOUT']}"


def _lineage(events, tmp_path):
    done = {e["job"]["name"].rpartition(".")[2]: e for e in events if e["eventType"] == "COMPLETE"}
    assert list(done) == ["plan", "snapshot", "consume_log"]
    for task, epoch, rows in (("plan", "3", None), ("snapshot", "3", 7), ("consume_log", "4", 7)):
        (source,), (target,) = done[task]["inputs"], done[task]["outputs"]
        assert (source["namespace"], source["name"]) == ("file", str(tmp_path / "source"))
        assert (target["namespace"], target["name"]) == ("file", str(tmp_path / "target"))
        assert source["facets"]["version"]["datasetVersion"] == epoch
        assert [column["name"] for column in target["facets"]["schema"]["fields"]] == ["id"]
        assert target["outputFacets"].get("outputStatistics", {}).get("rowCount") == rows
        assert done[task]["run"]["facets"]["tableBackfill"]["name"] == "orders"
    begun = [e for e in events if e["eventType"] == "START" and e["job"]["name"] == "build.orders.snapshot"]
    assert [target["name"] for target in begun[0]["outputs"]] == [str(tmp_path / "target")]
