"""The longest files first, so that none is left to one worker at the end."""

from __future__ import annotations

from pathlib import Path

import pytest

LONG = ("system", "spark", "airflow", "simulation")
TESTS = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: _turn(item.path.relative_to(TESTS).parts[0]))


def _turn(folder: str) -> int:
    return LONG.index(folder) if folder in LONG else len(LONG)
