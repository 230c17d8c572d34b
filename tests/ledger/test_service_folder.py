"""The folder of a service: each request is taken once, whoever looks, dies or comes late."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from airflow_backfill.core.errors import RecordInvalid
from airflow_backfill.core.service.heartbeat import Heartbeat
from airflow_backfill.core.service.request import Request
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.ledger.local_store import LocalStore
from airflow_backfill.ledger.service_folder import ServiceFolder


def request(n: int) -> Request:
    return Request("snapshot", f"/t{n}", Attempt(1, f"a{n}"), ("--target", f"/t{n}"), n)


def beat(at: int) -> Heartbeat:
    return Heartbeat(1, "app", "", at, 0, False)


@pytest.fixture
def folder(tmp_path: Path) -> ServiceFolder:
    return ServiceFolder.at(str(tmp_path / "service"))


def test_a_request_is_there_until_it_is_removed(folder: ServiceFolder) -> None:
    assert folder.names() == [] and folder.heartbeat("s") is None
    for n in (3, 1, 2):
        folder.ask(request(n))
    names = folder.names()
    assert names == [request(n).name for n in (1, 2, 3)]
    assert folder.take(names[0], "s") == request(1)
    assert folder.take(names[0], "other") is None
    assert folder.take(names[0], "s") == request(1), "after a lost answer"
    assert folder.untaken(names) == names[1:]
    assert folder.wanted(names[0]) and folder.taken_by(names[0]) == "s" and folder.taken_by(names[1]) is None
    folder.remove(names[0])
    assert not folder.wanted(names[0]) and folder.taken_by(names[0]) is None
    assert folder.take(names[0], "s") is None, "it has ended"
    assert folder.taken_by(names[0]) is None


def test_a_file_that_is_no_request(folder: ServiceFolder, tmp_path: Path) -> None:
    folder.ask(request(1))
    file = tmp_path / "service" / "requests" / request(1).name
    for text in ("{", "[]", '{"format": 9}'):
        file.write_text(text)
        with pytest.raises(RecordInvalid):
            folder.take(request(1).name, "s")


def test_a_refusal_is_kept_for_a_while(folder: ServiceFolder) -> None:
    for n in (10, 20):
        folder.ask(request(n))
        folder.refuse(request(n).name, RecordInvalid(f"no request {n}", file="x"))
    assert folder.names() == []
    folder.sweep(before=20)
    assert folder.refusal("a10") is None and folder.refusal("a5") is None
    kept = folder.refusal("a20")
    assert isinstance(kept, RecordInvalid) and (kept.message, kept.data) == ("no request 20", {"file": "x"})


def test_what_killed_services_leave_is_swept(folder: ServiceFolder) -> None:
    folder._store.create("services/damaged.json", b"{")
    folder.beat("old", beat(10))
    folder.beat("new", beat(20))
    for n in (1, 2):
        folder.ask(request(n))
        folder.take(request(n).name, "old")
        folder.watch(request(n).name, n)
    folder._store.delete(f"requests/{request(2).name}")  # withdrawn; whoever did it died before it removed the taker
    folder.sweep(before=20)
    assert folder.heartbeat("old") is None and folder.heartbeat("new") == beat(20)
    assert folder.taken_by(request(1).name) == "old" and folder.taken_by(request(2).name) is None
    assert folder.sign(request(1).name) == b'{"sign": 1}' and folder.sign(request(2).name) is None


class Interleaved(LocalStore):
    """Lets others do something before each operation."""

    def __init__(self, root: str, others: Callable[[], None]) -> None:
        super().__init__(root)
        self._others = others

    def list(self, folder, after=""):  # type: ignore[no-untyped-def]
        self._others()
        return super().list(folder, after)

    def read(self, name, limit):  # type: ignore[no-untyped-def]
        self._others()
        return super().read(name, limit)

    def create(self, name, data):  # type: ignore[no-untyped-def]
        self._others()
        return super().create(name, data)

    def delete(self, name):  # type: ignore[no-untyped-def]
        self._others()
        super().delete(name)


class World:
    """Two services take and end, a third process sweeps, and an asker withdraws, in any order of single operations."""

    def __init__(self, root: str, seed: int) -> None:
        self._chance, self._depth, self.begun = random.Random(seed), 0, list[str]()
        self._folder = ServiceFolder(Interleaved(root, self._others))
        self._steps = [self._service("one"), self._service("two"), self._asker(), self._sweeper()]

    def turn(self) -> None:
        step = self._chance.choice(self._steps)
        if not step.gi_running:
            next(step, None)

    def _others(self) -> None:
        if self._depth < 3 and self._chance.random() < 0.5:
            self._depth += 1
            self.turn()
            self._depth -= 1

    def _service(self, name: str) -> Generator[None, None, None]:
        while True:
            for file in self._folder.untaken(self._folder.names()):
                taken = self._folder.take(file, name)
                if taken is not None:
                    self.begun.append(taken.attempt.name)
                    yield
                    if self._chance.random() < 0.7:
                        self._folder.remove(file)
                yield
            yield

    def _asker(self) -> Generator[None, None, None]:
        for n in range(1, 13):
            self._folder.ask(request(n))
            yield
            if self._chance.random() < 0.3:
                self._folder.remove(request(n).name)
                yield

    def _sweeper(self) -> Generator[None, None, None]:
        while True:
            self._folder.sweep(before=0)
            yield


@pytest.mark.parametrize("seed", range(60))
def test_each_request_is_taken_once_whatever_happens_in_between(tmp_path: Path, seed: int) -> None:
    world = World(str(tmp_path), seed)
    for _ in range(200):
        world.turn()
    assert len(world.begun) == len(set(world.begun)) > 0
