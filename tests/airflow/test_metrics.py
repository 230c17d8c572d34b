"""The metrics of a build, as they arrive at a StatsD server."""

from __future__ import annotations

from tests.airflow.dag_files import group
from tests.telling.statsd import serving

# As the process of a task does at its start, which dag.test() leaves out.
START = """
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics import stats_utils
stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=True)
"""


def test_a_build_sends_its_metrics(airflow, source, target):
    file = group(airflow, source, target)
    file.write_text(START + file.read_text())
    with serving() as server:
        airflow.environment |= server.settings(STATSD_INFLUXDB_ENABLED="True")
        assert airflow.run(file, "build") == ["success"]
        found = server.received()
    assert found["percent,name=orders"][-1] == found["percent.orders"][-1] == "100.0|g"
    assert [found[f"{name}.orders"][0] for name in ("percent", "rows", "certified")] == ["0.0|g", "0|g", "0|g"]
    assert [found[f"{name}.orders"][-1] for name in ("rows", "certified")] == ["7|g", "1|g"]
    assert found["pending_epochs.orders"][-1] == "0|g"
    assert found["attempts,dag_id=build,task_id=orders.plan"] == ["1|c"]
    assert "errors,code=" not in str(found)
