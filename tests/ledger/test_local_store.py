from __future__ import annotations

import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from airflow_backfill.core.errors import InvalidSpec, NoSpace, SourceUnavailable, TargetExists, UnsafeCommitStore
from airflow_backfill.ledger.local_store import LocalStore
from airflow_backfill.ledger.open_store import open_store
from airflow_backfill.ledger.store import Store
from tests.disk import SIZE, disk, leave
from tests.ledger.contract import CHECKS
from tests.ledger.processes import started

__all__ = ["disk"]

Run = Callable[..., str]

CREATE_FOREVER = """
import sys
from airflow_backfill.ledger.local_store import LocalStore
store = LocalStore(sys.argv[1])
print("ready", flush=True)
number = 0
while True:
    number += 1
    store.create(f"f/{number:09}", b"x" * 300_000)
    store.put("f/head", b"%09d" % number + b"y" * 300_000)
"""


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_contract_of_a_store(check: Callable[[Store], None], tmp_path: Path) -> None:
    check(LocalStore(str(tmp_path / "store")))


@pytest.mark.parametrize("url", ["{}", "file:{}", "file://{}", "{}/"])
def test_every_spelling_of_a_path_is_the_same_store(url: str, tmp_path: Path) -> None:
    store = open_store(url.format(tmp_path))
    assert isinstance(store, LocalStore) and store.url == str(tmp_path)


def test_of_many_creations_at_once_one_wins_and_its_content_is_whole(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    with ThreadPoolExecutor(16) as pool:
        for number in range(50):
            contents = [bytes([65 + i]) * 100_000 for i in range(16)]
            name = f"f/{number}"
            results = list(pool.map(lambda data, name=name: store.create(name, data), contents))
            assert results.count(True) == 1
            assert store.read(name, 200_000) == contents[results.index(True)]
    assert [name for name in os.listdir(tmp_path / "f") if name.endswith(".tmp")] == []


def test_a_killed_writer_leaves_no_half_file_and_its_leftovers_are_hidden(tmp_path: Path) -> None:
    for _ in range(10):
        with started(CREATE_FOREVER, tmp_path) as process:
            while not (tmp_path / "f" / "head").exists():
                pass
            process.send_signal(signal.SIGKILL)
        store = LocalStore(str(tmp_path))
        *numbered, head = store.list("f")
        assert {len(store.read(f"f/{name}", 400_000)) for name in numbered} == {300_000}
        assert head == "head"
        assert len(store.read("f/head", 400_000)) == 300_009
        (tmp_path / "f" / "head").unlink()
    (tmp_path / "f" / ".000000001.stale.tmp").write_bytes(b"half")
    assert LocalStore(str(tmp_path)).create("f/000000001", b"second") is False


def test_a_file_that_is_being_written_is_not_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(str(tmp_path))
    listed = []

    def look_then(step: Callable[[str, str], None]) -> Callable[[str, str], None]:
        def _step(source: str, target: str) -> None:
            listed.append((list(store.list("f")), len(os.listdir(tmp_path / "f"))))
            step(source, target)

        return _step

    monkeypatch.setattr(os, "link", look_then(os.link))
    monkeypatch.setattr(os, "replace", look_then(os.replace))
    store.create("f/x", b"data")
    store.put("f/x", b"data")
    assert listed == [([], 1), (["x"], 2)]


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, run: Run) -> None:
    program = """
import resource, signal, sys
from airflow_backfill.core.errors import SourceUnavailable
from airflow_backfill.ledger.local_store import LocalStore
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
store = LocalStore(sys.argv[1])
store.put("f/small", b"x")
for write in (store.create, store.put):
    try:
        write("f/large", b"x" * 5000)
    except SourceUnavailable as error:
        print(error.retry, error.data["file"])
"""
    assert run(program, tmp_path) == "True f/large\n" * 2 and os.listdir(tmp_path / "f") == ["small"]


def test_trouble_with_the_disk_is_coded(tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    store = LocalStore(str(tmp_path))
    for call in (lambda: store.read("f", 1), lambda: list(store.chunks("loop/x")), lambda: store.put("f", b"x")):
        with pytest.raises(SourceUnavailable, match=str(tmp_path)):
            call()


def test_a_file_system_without_links_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # No such file system can be mounted without privileges: only the answer of link() is replaced.
    def link(source: str, target: str) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(UnsafeCommitStore, match="hard links"):
        LocalStore(str(tmp_path)).create("f/x", b"data")
    assert os.listdir(tmp_path / "f") == []


def test_a_file_in_the_place_of_the_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("mine")
    store = LocalStore(str(tmp_path / "store"))
    assert store.list("f") == ()
    for write in (store.create, store.put):
        with pytest.raises(TargetExists, match=f"{tmp_path}/store is a file, .* move the file away"):
            write("f/x", b"data")
    assert (tmp_path / "store").read_text() == "mine"


def test_a_name_that_is_too_long_is_refused_for_good(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path / ("x" * 300)))
    for trouble in (lambda: store.list("f"), lambda: store.read("f/x", 9), lambda: store.create("f/x", b"data")):
        with pytest.raises(InvalidSpec, match="too long"):
            trouble()


def test_a_full_disk_is_said_and_leaves_no_half_of_a_file(disk: Path) -> None:
    store = LocalStore(str(disk / "store"))
    store.put("there", b"old")
    leave(disk, 1 << 12)
    for write in (store.create, store.put):
        with pytest.raises(NoSpace, match=r"new: No space left on device; make room"):
            write("new", bytes(1 << 14))
    with pytest.raises(NoSpace):
        store.put("there", bytes(1 << 14))
    assert (store.list(""), store.read("there", 10)) == (["there"], b"old")
    leave(disk, SIZE)
    assert store.create("new", b"x")
