"""The longest files first, so that none is left to one worker at the end; where temporary files lie; and a store that
fails.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from airflow_backfill.ledger.local_store import LocalStore
from tests.failing import OPERATIONS, Failing

LONG = ("system", "spark", "airflow", "simulation")
TESTS = Path(__file__).parent
IN_MEMORY = Path("/dev/shm")
ROOM_BYTES = 1 << 30
"""The whole suite takes a tenth of that at a time; a test that fails keeps its files."""


def pytest_configure() -> None:
    """Temporary files lie in memory if it has room: there are thousands of small ones, and each is synced."""
    if not IN_MEMORY.is_dir():
        return
    found = os.statvfs(IN_MEMORY)
    # Some tests run scripts that they write.
    if found.f_bavail * found.f_frsize >= ROOM_BYTES and not found.f_flag & os.ST_NOEXEC:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(IN_MEMORY))


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
