"""The longest files first, so that none is left to one worker at the end; and a store that fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_backfill.ledger.local_store import LocalStore
from tests.failing import OPERATIONS, Failing

LONG = ("system", "spark", "airflow", "simulation")
TESTS = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: _turn(item.path.relative_to(TESTS).parts[0]))


def _turn(folder: str) -> int:
    return LONG.index(folder) if folder in LONG else len(LONG)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Failing:
    """Of all stores on this machine's disks: at which operation they fail."""
    failing = Failing()
    for name in OPERATIONS:
        monkeypatch.setattr(LocalStore, name, failing.wrapped(getattr(LocalStore, name)))
    return failing
