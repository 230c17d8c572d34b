from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from threading import Event, current_thread
from typing import Any

import obstore
import pytest
from obstore.store import MemoryStore

from airflow_backfill.builds.glance import glance
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.ledger import object_store, open_store
from airflow_backfill.ledger.location import Location
from airflow_backfill.ledger.object_store import ObjectStore
from airflow_backfill.ledger.reader import BuildReader
from airflow_backfill.ledger.store import Store
from airflow_backfill.plugin import reading
from airflow_backfill.plugin.api import GLANCED, SEEN_WHOLE
from airflow_backfill.plugin.reading import DEADLINE_SECONDS, Readings
from airflow_backfill.plugin.tasks import Table, Task
from airflow_backfill.plugin.whole import whole
from airflow_backfill.testing.json_log import JsonLog
from tests.airflow.without_spark import built, commit_to

DELAY_SECONDS = 0.02
REQUESTS = 13
"""Of the overview to the store, for one build."""
STEPS = 6
"""Requests that a whole page waits for, one after the other; others run beside them."""
MANY = 300


class Remote:
    """A store with ``before`` ahead of each request."""

    def __init__(self, store: Store, before: Callable[[str], None]) -> None:
        self._store, self._before = store, before

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name not in ("list", "read", "chunks", "open"):
            return found

        def asked(*arguments: Any, **named: Any) -> Any:
            self._before(f"{name} {self._store.url} {arguments[:1]}")
            return found(*arguments, **named)

        return asked


@pytest.fixture
def remote(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Callable[[str], None]], None]:
    """Makes every store of this test that is opened from now on remote: threads of earlier ones may still read."""

    def opened(before: Callable[[str], None]) -> None:
        own = open_store._open

        def opens(url: str, *given: Any) -> Any:
            store = own(url, *given)
            return Remote(store, before) if str(tmp_path) in url else store

        monkeypatch.setattr(open_store, "_open", opens)

    return opened


@pytest.fixture
def in_bucket(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Puts all files below a folder into a bucket in memory, from which every store reads from now on."""

    def put(folder: Path) -> None:
        memory = MemoryStore()
        for path in folder.rglob("*"):
            if path.is_file():
                obstore.put(memory, str(path).lstrip("/"), path.read_bytes())
        monkeypatch.setattr(object_store, "_client", lambda *_: memory)
        monkeypatch.setattr(open_store, "_open", lambda url, *_: ObjectStore(Location.parse(f"s3a://lake{url}"), {}))

    return put


def table(target: Path) -> Table:
    """As Airflow's database names it, after a task has drawn an attempt."""
    drawn = BuildReader(str(target)).draw_attempt({"task": "snapshot", "dag_id": "d"})
    return claimed(target, drawn)


def claimed(target: Path, attempt: Attempt) -> Table:
    at = datetime(2026, 1, 1, tzinfo=timezone.utc)
    return Table(str(target), None, (Task("d", "r", "t", -1, "running", 1, at, attempt),))


def long_build(source: Path, target: Path) -> Path:
    """A build with a log of many epochs behind it, and many ahead."""
    built(source, target, "plan", "snapshot")
    commit_to(source, 30)
    for table in (source, target):
        JsonLog(str(table)).write_checksum()
    built(source, target, "consume_log")
    commit_to(source, 30)
    for table in (source, target):
        JsonLog(str(table)).write_checksum()
    return target


def test_a_glance_takes_few_requests_however_far_the_build_is_behind(
    source: Path, tmp_path: Path, remote: Callable[..., None]
) -> None:
    place = table(long_build(source, tmp_path / "target"))
    asked: list[str] = []
    remote(asked.append)
    [found] = Readings(glance, GLANCED).of([place])
    assert found["lag"]["epochs"] == 30 and found["dags"] == ["d"]
    assert len(asked) <= REQUESTS, "\n".join(asked)


def test_a_page_takes_few_steps_although_it_draws_many_commits(
    source: Path, tmp_path: Path, remote: Callable[..., None]
) -> None:
    place = table(long_build(source, tmp_path / "target"))
    waited: list[str] = []
    remote(lambda url: waited.append(url) if current_thread().name.startswith("table-backfill-read") else None)
    [found] = Readings(whole, SEEN_WHOLE).of([place])
    assert found["lag"]["rows"] is not None and len(found["history"]) > 3
    assert len(waited) <= STEPS, "\n".join(waited)


def test_a_page_asks_for_each_file_and_folder_once(source: Path, tmp_path: Path, remote: Callable[..., None]) -> None:
    place = table(long_build(source, tmp_path / "target"))
    asked: list[str] = []
    remote(lambda url: asked.append(url.partition(" ")[2]))
    Readings(whole, SEEN_WHOLE).of([place])
    assert len(asked) == len(set(asked)) and sum(f"{source} " in url for url in asked) > 3, "\n".join(sorted(asked))


@pytest.mark.slow
@pytest.mark.parametrize("bucket", [False, True], ids=["folder", "bucket"])
def test_hundreds_of_builds_are_read_in_a_second(
    source: Path, tmp_path: Path, remote: Callable[..., None], in_bucket: Callable[[Path], None], bucket: bool
) -> None:
    """``bucket``: through the client that object stores have, whose requests Python does not take part in."""
    place = table(first := long_build(source, tmp_path / "b0"))
    for n in range(1, MANY):
        for suffix in ("", ".backfill"):
            shutil.copytree(f"{first}{suffix}", f"{tmp_path / f'b{n}'}{suffix}")
    [(_, [attempt])] = place.claims
    places = [claimed(tmp_path / f"b{n}", attempt) for n in range(MANY)]
    if bucket:
        in_bucket(tmp_path)
    asked: list[str] = []
    remote(lambda url: asked.append(url) or time.sleep(DELAY_SECONDS))
    begun, used = time.monotonic(), time.process_time()
    found = Readings(glance, GLANCED).of(places)
    seconds, processor = time.monotonic() - begun, time.process_time() - used
    print(f"{MANY} builds in {seconds:.2f} s, {processor:.2f} s of a core")
    assert [one.get("phase") for one in found] == ["consume_log"] * MANY
    assert len(asked) <= MANY * REQUESTS, "what it takes, on any machine"


def test_a_store_that_hangs_holds_nobody_up(
    source: Path, tmp_path: Path, remote: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [table(long_build(source, tmp_path / name)) for name in ("good", "hung")]
    free = Event()
    remote(lambda url: free.wait() if "hung" in url else None)
    readings = Readings(glance, GLANCED)
    for patience in (60.0, DEADLINE_SECONDS):  # who asks later does not wait once more
        begun = time.monotonic()
        good, hung = readings.of(places)
        assert time.monotonic() - begun < patience
        assert good["phase"] == "consume_log"
        assert hung["trouble"]["code"] == "SOURCE_UNAVAILABLE" and "not answered" in hung["trouble"]["message"]
    free.set()
    monkeypatch.setattr(reading, "DEADLINE_SECONDS", 60.0)
    assert readings.of(places)[1]["phase"] == "consume_log"


def test_a_build_that_waits_for_a_thread_is_not_late(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [table(long_build(source, tmp_path / name)) for name in ("first", "second")]
    monkeypatch.setattr(reading, "READERS", 1)
    monkeypatch.setattr(reading, "_THREADS", {})
    clock = [0.0]
    monkeypatch.setattr(reading.time, "monotonic", lambda: clock[0])
    answered = Event()

    def look(target: str, options: object, *, values: bool) -> dict[str, Any]:
        if target.endswith("first"):
            clock[0] += 2 * reading.DEADLINE_SECONDS
        else:
            answered.wait(0.2)
        return {"target": target}

    assert Readings(look, GLANCED).of(places)[1].get("target") == places[1].target


def test_a_build_that_cannot_be_read_shows_why(source: Path, tmp_path: Path) -> None:
    target = long_build(source, tmp_path / "target")
    place = table(target)
    newest = max((target / "_delta_log").glob("*.json"))
    newest.write_bytes(newest.read_bytes()[:-20])
    [found] = Readings(glance, GLANCED).of([place])
    assert found["trouble"]["code"] == "RECORD_INVALID"


def test_a_lost_source_hides_nothing_of_the_build(source: Path, tmp_path: Path) -> None:
    place = table(long_build(source, tmp_path / "target"))
    shutil.rmtree(source)
    [found] = Readings(glance, GLANCED).of([place])
    assert (found["phase"], found["lag"], found["trouble"]["code"]) == ("consume_log", None, "SOURCE_NOT_DELTA")
