"""DAG files of tests: a build, and the DAG that follows it, with applications that need no Spark."""

from __future__ import annotations

from pathlib import Path

from tests.airflow.runs import Airflow

_GROUP = """
from airflow.sdk import DAG, Asset
from airflow_backfill.operators.upstream import UpstreamOperator
from airflow_backfill.sensors.await_finish import AwaitFinishSensor
from airflow_backfill.task_groups.backfill import BackfillTaskGroup
from airflow_backfill.testing.launcher import run_here
from tests.airflow.launchers import *

with DAG("build", schedule=None) as build:
    group = BackfillTaskGroup(
        "orders", source={source!r}, target={target!r}, key=["id"], **({{
            "max_lag": 0, "poke_interval": 0.2, "submit": run_here, "handoff_asset": Asset("orders_ready"),
            "default_args": {{"retries": 0, "retry_delay": 0}},
        }} | dict({more}))
    )

with DAG("follow", schedule=[Asset("orders_ready")]) as follow:
    AwaitFinishSensor(task_id="await_finish", target={target!r}, poke_interval=0.2) >> UpstreamOperator(
        task_id="upstream", target={target!r}, submit=run_here, outlets=[Asset("orders")]
    )
"""


def group(airflow: Airflow, source: Path, target: Path, more: str = "") -> Path:
    """The DAGs ``build`` and ``follow``; ``more`` are arguments of the task group."""
    return airflow.write(_GROUP.format(source=str(source), target=str(target), more=more))
