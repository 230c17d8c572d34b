"""A build whose applications a service runs: its tasks wait without a worker."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from airflow_backfill.ledger.service_folder import ServiceFolder
from tests.airflow.dag_files import group
from tests.airflow.runs import ROOT


@contextmanager
def served(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-m", "tests.airflow.serving", str(folder)], cwd=ROOT)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def submit(folder: Path, **more: object) -> str:
    arguments = {"service": str(folder), "poke_interval": 0.2, **more}
    return f'submit=__import__("airflow_backfill.operators.served").operators.served.Served(**{arguments!r})'


def test_a_service_runs_what_tasks_ask_for(airflow, source, target, tmp_path):
    folder = tmp_path / "service"
    file = group(airflow, source, target, submit(folder))
    with airflow.running(file, "build"):
        waiting = airflow.until(lambda: ServiceFolder.at(str(folder)).names())
        assert len(waiting) == 1
        with served(folder):
            airflow.until(lambda: "orders.finish" in airflow.tasks() and airflow.tasks()["orders.finish"] == "success")
    assert airflow.states == ["success"]
    assert airflow.returned("orders.finish")[0]["epoch"] == 3
    drawn = sorted(target.with_name("target.backfill").glob("attempts/*[0-9].json"))
    assert [json.loads(path.read_text())["task"] for path in drawn] == ["plan"]
    assert not ServiceFolder.at(str(folder)).names()
    assert airflow.pulled("orders.plan", "_link_SparkUiLink") == ["http://spark.test/1"]
