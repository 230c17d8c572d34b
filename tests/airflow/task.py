"""A source, a target, and as much of a task as an operator needs, in Airflow with a home of its own."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.airflow.home import HOME
from tests.airflow.without_spark import make_source

assert os.environ["AIRFLOW_HOME"] == HOME


class Store(dict):
    """A task's state store."""

    def set(self, key: str, value: Any, *, retention: Any = None) -> None:
        self[key] = value

    def delete(self, key: str) -> None:
        self.pop(key, None)


@pytest.fixture
def context() -> dict[str, Any]:
    return new_context()


def new_context() -> dict[str, Any]:
    """As much of a task's context as is needed to run one."""
    pushed: dict[str, Any] = {}
    ti = SimpleNamespace(dag_id="d", task_id="t", run_id="r", try_number=1, max_tries=1, map_index=-1, pushed=pushed)
    ti.xcom_push = lambda key, value: pushed.__setitem__(key, value)
    return {"task_state_store": Store(), "ti": ti}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return make_source(tmp_path / "source")


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "target"
