"""The loop of a service, without Spark: takes, stops, drains, and survives what is broken."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Lock, Thread

import pytest

from airflow_backfill.core.errors import BackfillError, CredentialsExpired, RecordInvalid, SourceUnavailable
from airflow_backfill.core.service.request import Request
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.ledger.local_store import LocalStore
from airflow_backfill.ledger.service_folder import ServiceFolder
from airflow_backfill.spark.service import service as module
from airflow_backfill.spark.service.service import Service
from tests.failing import OPERATIONS, Away, Failing

SOON = 30.0


class Works:
    """The work of requests: each begins, and goes on until it is let go or stopped."""

    def __init__(self) -> None:
        self.begun, self.ended, self.stopped, self.cancelled = list[str](), list[str](), list[str](), list[str]()
        self.let_go, self._lock, self.now, self.most = Event(), Lock(), 0, 0

    def __call__(self, request: Request, stopped: Event) -> None:
        name = request.attempt.name
        with self._lock:
            self.begun.append(name)
            self.now += 1
            self.most = max(self.most, self.now)
        while not (self.let_go.is_set() or stopped.is_set()):
            time.sleep(0.005)
        with self._lock:
            self.now -= 1
            (self.stopped if stopped.is_set() else self.ended).append(name)
        if name == "raises":
            raise RuntimeError("no outcome could be stored")

    def cancel(self, request: Request) -> None:
        self.cancelled.append(request.attempt.name)


class Served:
    """A service that runs in a thread."""

    def __init__(self, folder: ServiceFolder, seconds: float = SOON, drain: float = SOON, **options: int) -> None:
        self.works, self.errors = Works(), list[BaseException]()
        self.healthy = True
        self.service = Service(folder, self.works, self.works.cancel, self._check, **options)
        self._thread = Thread(target=self._serve, args=(seconds, drain))
        self._thread.start()

    def _check(self) -> None:
        if not self.healthy:
            raise RuntimeError("Spark has ended")

    def _serve(self, seconds: float, drain: float) -> None:
        try:
            self.service.serve(seconds, drain)
        except BaseException as error:
            self.errors.append(error)

    def end(self) -> None:
        self.healthy = False
        self.works.let_go.set()
        self.join()

    def join(self) -> None:
        self._thread.join(SOON)
        assert not self._thread.is_alive()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(module, "BEAT_SECONDS", 0.05)


@pytest.fixture
def folder(tmp_path: Path) -> ServiceFolder:
    return ServiceFolder.at(str(tmp_path / "service"))


def ask(folder: ServiceFolder, *names: str) -> list[str]:
    requests = [Request("snapshot", "/t", Attempt(1, name), (), n) for n, name in enumerate(names)]
    for request in requests:
        folder.ask(request)
    return [request.name for request in requests]


def wait(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + SOON
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_requests_run_side_by_side_the_oldest_first_and_are_removed_at_their_end(folder: ServiceFolder) -> None:
    asked = ask(folder, *"abcde")
    served = Served(folder, at_once=3)
    wait(lambda: len(served.works.begun) == 3)
    wait(lambda: (beat := folder.heartbeat(served.service.name)) is not None and beat.running == 3)
    assert sorted(served.works.begun) == list("abc") and folder.taken_by(asked[0]) == served.service.name
    served.works.let_go.set()
    wait(lambda: not folder.names())
    assert sorted(served.works.ended) == list("abcde") and served.works.most == 3
    assert not served.works.cancelled
    served.end()


def test_a_withdrawn_request_is_stopped_and_the_others_go_on(folder: ServiceFolder) -> None:
    asked = ask(folder, "a", "b")
    served = Served(folder)
    wait(lambda: len(served.works.begun) == 2)
    folder.remove(asked[0])
    wait(lambda: served.works.stopped == ["a"])
    assert set(served.works.cancelled) == {"a"} and served.works.now == 1
    served.works.let_go.set()
    wait(lambda: served.works.ended == ["b"])
    served.end()


def test_a_request_that_nobody_watches_any_more_is_withdrawn(
    folder: ServiceFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WATCH_SECONDS", 0.0)
    monkeypatch.setattr(module, "UNWATCHED_SECONDS", 0.5)
    forgotten, watched = (Request("snapshot", f"/{name}", Attempt(1, name), (), 1) for name in "ab")
    folder.watch(forgotten.name, 7)
    for request in (forgotten, watched):
        folder.ask(request)
    ask(folder, "old")  # by a version of the package that leaves no signs
    served, sign = Served(folder), 0
    while served.works.stopped != ["a"]:
        sign += 1
        assert sign < 2_000
        folder.watch(watched.name, sign)
        time.sleep(0.005)
    assert folder.sign(forgotten.name) is None and not folder.wanted(forgotten.name)
    assert sorted(served.works.begun) == ["a", "b", "old"] and served.works.now == 2
    served.end()


def test_what_is_no_request_or_ends_badly_is_removed(folder: ServiceFolder, tmp_path: Path) -> None:
    asked = ask(folder, "damaged", "raises", "good")
    (tmp_path / "service" / "requests" / asked[0]).write_text("{")
    served = Served(folder)
    served.works.let_go.set()
    wait(lambda: not folder.names())
    assert sorted(served.works.ended) == ["good", "raises"]
    refusal = folder.refusal("damaged")
    assert isinstance(refusal, RecordInvalid) and "is not JSON" in refusal.message
    served.end()


def test_its_heart_beats_while_it_takes_thousands_of_requests(
    folder: ServiceFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the tasks that wait for its other requests give them up."""
    beats, refuse = set[int](), folder.refuse

    def refused(name: str, error: BackfillError) -> None:
        time.sleep(0.02)
        refuse(name, error)
        beat = folder.heartbeat(service.name)
        beats.add(0 if beat is None else beat.number)

    works = Works()
    service = Service(folder, works, works.cancel, lambda: None)
    monkeypatch.setattr(folder, "refuse", refused)
    for name in ask(folder, *map(str, range(50))):
        (tmp_path / "service" / "requests" / name).write_text("{")
    service._turn(takes=True)
    assert len(beats) > 5 and not folder.names()


def test_when_its_time_is_over_it_drains(folder: ServiceFolder) -> None:
    ask(folder, "long")
    served = Served(folder, seconds=0.3, drain=0.5)
    wait(lambda: (beat := folder.heartbeat(served.service.name)) is not None and beat.draining)
    late = ask(folder, "long", "late")[1]
    served.join()
    assert served.works.stopped == ["long"] and served.works.begun == ["long"]
    assert folder.names() == [late] and folder.taken_by(late) is None and not served.errors
    assert folder.heartbeat(served.service.name) is None
    following = Served(folder)
    following.works.let_go.set()
    wait(lambda: following.works.ended == ["late"])
    following.end()


def test_it_outlives_a_store_that_fails_for_a_while(folder: ServiceFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    broken, names = Event(), folder.names

    def listed() -> list[str]:
        if broken.is_set():
            raise SourceUnavailable("503")
        return names()

    monkeypatch.setattr(folder, "names", listed)
    served = Served(folder)
    ask(folder, "a")
    wait(lambda: served.works.begun == ["a"])
    broken.set()
    ask(folder, "a", "b")
    before = folder.heartbeat(served.service.name)
    wait(lambda: folder.heartbeat(served.service.name) != before)
    assert served.works.begun == ["a"] and not served.works.cancelled
    broken.clear()
    wait(lambda: served.works.begun == ["a", "b"])
    served.end()


@pytest.mark.parametrize("done", [True, False])
def test_no_request_is_forgotten_if_the_store_fails_once(tmp_path: Path, done: bool) -> None:
    for operation in range(1, 30):
        _serve_while_it_fails(str(tmp_path / f"service-{operation}"), operation, done)


def test_it_ends_by_its_clock_although_the_store_is_gone(
    folder: ServiceFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STOP_SECONDS", 0.2)
    ask(folder, "a")
    served = Served(folder, seconds=0.5, drain=0.1)
    wait(lambda: served.works.begun == ["a"])
    monkeypatch.setattr(folder, "names", Away(10**9).wrapped(folder.names))
    served.join()
    served.works.let_go.set()


def test_it_ends_with_the_credentials_that_it_was_given(folder: ServiceFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody renews them while it runs; the next service gets new ones."""

    def expired() -> list[str]:
        raise CredentialsExpired("the session credentials have expired")

    served = Served(folder)
    wait(lambda: folder.heartbeat(served.service.name))
    monkeypatch.setattr(folder, "names", expired)
    served.join()
    assert isinstance(served.errors[0], CredentialsExpired)


def test_it_begins_although_the_store_fails_at_first_and_ends_by_no_damaged_file(tmp_path: Path) -> None:
    away, store, folder = Away(3), LocalStore(str(tmp_path)), ServiceFolder.at(str(tmp_path))
    store.list = away.wrapped(store.list)  # type: ignore[method-assign]
    folder._store.create("services/damaged.json", b"{")
    asked = ask(folder, "a", "b")
    folder._store.create(f"watched/{asked[0]}", b"{")
    served = Served(ServiceFolder(store))
    wait(lambda: sorted(served.works.begun) == ["a", "b"])
    served.works.let_go.set()
    wait(lambda: not folder.names())
    served.end()
    assert sorted(served.works.ended) == ["a", "b"]


def _serve_while_it_fails(place: str, operation: int, done: bool) -> None:
    failing, store, sound = Failing(done), LocalStore(place), ServiceFolder.at(place)
    for name in OPERATIONS:
        setattr(store, name, failing.wrapped(getattr(store, name)))
    served = Served(ServiceFolder(store))
    served.works.let_go.set()
    wait(lambda: sound.heartbeat(served.service.name))
    failing.at = failing.count + operation
    sound._store.create("requests/000-damaged.json", b"{")
    ask(sound, "a", "b")
    wait(lambda: not sound.names())
    assert sorted(served.works.ended) == ["a", "b"] and sound.refusal("damaged") is not None
    served.end()


def test_it_ends_with_spark(folder: ServiceFolder) -> None:
    served = Served(folder)
    served.end()
    assert [str(error) for error in served.errors] == ["Spark has ended"]
