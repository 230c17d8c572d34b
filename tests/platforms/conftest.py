"""Tasks without a DAG, on platforms that answer on loopback."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from tests.airflow.runs import ROOT
from tests.airflow.task import context as small_context
from tests.airflow.task import source, target
from tests.platforms.servers import PLATFORMS, Platform

__all__ = ["small_context", "source", "target"]


@pytest.fixture
def context(small_context: dict[str, Any]) -> dict[str, Any]:
    """What operators of other providers look for in a context, too."""
    ti = small_context["ti"]
    ti.stats_tags, ti.task = {}, None
    return {**small_context, "task_instance": ti, "run_id": ti.run_id, "dag": None, "map_index_template": None}


@pytest.fixture(params=list(PLATFORMS))
def platform(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Platform]:
    with PLATFORMS[request.param]() as running:
        running.name = request.param
        for name, value in running.variables.items():
            monkeypatch.setenv(name, value)
        yield running


@pytest.fixture
def example(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The example DAG of the platform."""
    monkeypatch.syspath_prepend(str(ROOT / "dags"))
    spec = importlib.util.spec_from_file_location("example", ROOT / "dags" / f"on_{platform.name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, "example", module)
    return module


@pytest.fixture
def submit(example: ModuleType, platform: Platform) -> Any:
    """The launcher of the example, with shorter waits."""
    launcher = getattr(example, f"with_{platform.name}")

    def quick(launch: Any) -> Any:
        operator = launcher(launch)
        for wait in ("_polling_interval", "polling_period_seconds", "base_container_status_polling_interval"):
            if hasattr(operator, wait):
                setattr(operator, wait, 0.05)
        if hasattr(operator, "waiter_delay"):
            operator.waiter_delay, operator.waiter_max_attempts = 0.05, 1200
        return operator

    return quick
