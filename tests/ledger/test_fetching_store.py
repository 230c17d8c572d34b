from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from airflow_backfill.ledger.fetching_store import FetchingStore
from airflow_backfill.ledger.local_store import LocalStore
from airflow_backfill.ledger.store import CHUNK_BYTES, NotFound


class Counted(LocalStore):
    """Counts what is asked of it."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.asked: list[str] = []

    def list(self, folder: str, after: str = "") -> list[str]:
        self.asked.append(f"list {folder}")
        return list(super().list(folder, after))

    def read(self, name: str, limit: int) -> bytes:
        self.asked.append(name)
        return super().read(name, limit)


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


@pytest.fixture
def store(tmp_path: Path) -> Counted:
    for n in range(9):
        (tmp_path / "log").mkdir(exist_ok=True)
        (tmp_path / "log" / f"{n}.json").write_text(str(n))
        (tmp_path / "log" / f"{n}.crc").write_text(f"sum {n}")
    return Counted(str(tmp_path))


def test_the_newest_documents_of_a_folder_and_one_checksum_are_fetched_when_it_is_listed(
    store: Counted, threads: ThreadPoolExecutor
) -> None:
    ahead = FetchingStore(store, threads, {"log": 3})
    assert len(ahead.list("log")) == 18
    assert [ahead.read(f"log/{n}.json", 100) for n in (8, 7, 6)] == [b"8", b"7", b"6"]
    assert b"".join(ahead.chunks("log/8.crc")) == b"sum 8"
    assert sorted(store.asked) == ["list log", "log/6.json", "log/7.json", "log/8.crc", "log/8.json"]


def test_nothing_is_asked_twice(store: Counted, threads: ThreadPoolExecutor) -> None:
    ahead = FetchingStore(store, threads, {})
    for _ in range(2):
        assert ahead.read("log/1.json", 100) == b"1" and b"".join(ahead.chunks("log/1.json")) == b"1"
        assert ahead.list("log", "5") == ["5.crc", "5.json", *ahead.list("log", "5.json")]
    assert len(ahead.list("log", "8")) == 2
    assert sorted(store.asked) == ["list log", "log/1.json"]
    ahead.list("log", "2")  # begins earlier than what is known
    assert store.asked.count("list log") == 2


def test_a_large_file_is_read_whole_and_kept_by_nobody(
    store: Counted, threads: ThreadPoolExecutor, tmp_path: Path
) -> None:
    large = bytes(range(256)) * (CHUNK_BYTES // 128)
    (tmp_path / "log" / "9.json").write_bytes(large)
    ahead = FetchingStore(store, threads, {"log": 1})
    assert ahead.read("log/9.json", 7) == large[:7]
    assert ahead.read("log/9.json", len(large) + 1) == large
    assert b"".join(ahead.chunks("log/9.json")) == large


def test_all_documents_of_a_number_are_fetched_with_it(
    store: Counted, threads: ThreadPoolExecutor, tmp_path: Path
) -> None:
    for suffix in ("outcome", "started"):
        for n in (7, 8):
            (tmp_path / "log" / f"{n}.{suffix}.json").write_text(suffix)
    ahead = FetchingStore(store, threads, {"log": 1})
    ahead.list("log")
    assert ahead.read("log/8.outcome.json", 9) == b"outcome" and ahead.read("log/8.started.json", 9) == b"started"
    threads.shutdown()
    assert sorted(store.asked) == ["list log", "log/8.crc", "log/8.json", "log/8.outcome.json", "log/8.started.json"]


def test_what_a_listing_lacks_is_not_asked_for(store: Counted, threads: ThreadPoolExecutor, tmp_path: Path) -> None:
    ahead = FetchingStore(store, threads, {})
    ahead.list("log", "5")
    for name in ("log/7.outcome.json", "log/9.json"):
        with pytest.raises(NotFound):
            ahead.read(name, 5)
    assert store.asked == ["list log"]
    assert ahead.read("log/4.json", 5) == b"4", "it is before what was listed"
    (tmp_path / "log" / "_pointer").write_text("4")
    assert ahead.read("log/_pointer", 5) == b"4", "a listing leaves hidden files out"


def test_a_missing_file_is_missing_each_time(store: Counted, threads: ThreadPoolExecutor) -> None:
    ahead = FetchingStore(store, threads, {"log": 1})
    for _ in range(2):
        with pytest.raises(NotFound):
            ahead.read("log/none.json", 5)


def test_a_missing_file_keeps_nothing_of_what_was_read(store: Counted, threads: ThreadPoolExecutor) -> None:
    gc.disable()  # nothing may have to wait for the collector
    try:
        ahead = FetchingStore(store, threads, {})
        for _ in range(2):
            with pytest.raises(NotFound):
                ahead.read("log/_last", 100)
        assert store.asked == ["log/_last"]
        left = weakref.ref(ahead)
        del ahead
        assert left() is None
    finally:
        gc.enable()
