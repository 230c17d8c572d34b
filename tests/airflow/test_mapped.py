"""One task group for as many tables as a task returns: Airflow's own dynamic task mapping."""

from __future__ import annotations

import pytest

from tests.airflow.without_spark import built, make_source

_MAPPED = """
from airflow.sdk import DAG, task, task_group
from airflow_backfill.operators.upstream import UpstreamOperator
from airflow_backfill.task_groups.backfill import BackfillTaskGroup
from airflow_backfill.testing.launcher import run_here

with DAG("copies", schedule=None, default_args={{"retries": 0}}) as dag:

    @task
    def tables():
        return {tables!r}

    @task_group
    def copied(source, target):
        build = BackfillTaskGroup(
            "build", source=source, target=target, key=["id"], max_lag=0, poke_interval=0.2, submit=run_here
        )
        build >> UpstreamOperator(task_id="follow", target=target, submit=run_here)

    copied.expand_kwargs(tables())
"""


@pytest.mark.soak
def test_each_table_has_a_build_of_its_own(airflow, tmp_path):
    tables = [{"source": str(make_source(tmp_path / name)), "target": str(tmp_path / f"{name}_copy")} for name in "abc"]
    file = airflow.write(_MAPPED.format(tables=tables))
    assert airflow.run(file, "copies") == ["success"], (airflow.tasks(), airflow.log[-5000:])
    builds = [built(tmp_path / name, tmp_path / f"{name}_copy") for name in "abc"]
    finished = airflow.returned("copied.build.finish")
    assert [one["build"] for one in finished] == [state.plan.build for state in builds]
    assert {state.phase.value for state in builds} == {"finished"}
