"""Airflow with an empty database for each test, migrated once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.airflow.home import HOME
from tests.airflow.runs import ROOT, Airflow, DagTests
from tests.airflow.task import source, target


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.airflow)


def environment(home: Path) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {
        **os.environ,
        "PATH": path,
        "PYTHONPATH": str(ROOT),
        "PYSPARK_PYTHON": sys.executable,
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
        "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[2]"}',
    }


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated database."""
    home = tmp_path_factory.mktemp("migrated")
    command = [sys.executable, "-m", "airflow", "db", "migrate"]
    done = subprocess.run(command, env=environment(home), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return home / "airflow.db"


@pytest.fixture(scope="session")
def dag_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DagTests]:
    tests = DagTests(environment(tmp_path_factory.mktemp("dag_tests")))
    yield tests
    tests.stop()


@pytest.fixture
def airflow(migrated: Path, dag_tests: DagTests, tmp_path: Path) -> Airflow:
    home = tmp_path / "airflow"
    (home / "dags").mkdir(parents=True)
    shutil.copy(migrated, home)
    return Airflow(home, environment(home), dag_tests)


assert os.environ["AIRFLOW_HOME"] == HOME

__all__ = ["source", "target"]
