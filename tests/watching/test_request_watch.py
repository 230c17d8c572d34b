"""How long somebody waits for a request."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from airflow_backfill.core.service.heartbeat import SILENT_SECONDS, WATCH_SECONDS, Heartbeat
from airflow_backfill.core.service.request import Request
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.ledger.service_folder import ServiceFolder
from airflow_backfill.watching import request_watch
from airflow_backfill.watching.request_watch import RequestWatch

NOW = time.time()


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return NOW + self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(request_watch, "time", clock)
    return clock


@pytest.fixture
def watched(tmp_path: Path) -> tuple[ServiceFolder, RequestWatch]:
    folder = ServiceFolder.at(str(tmp_path))
    request = Request("snapshot", "/t", Attempt(1, "a"), (), int(NOW * 1000))
    folder.ask(request)
    return folder, RequestWatch(str(tmp_path), request.name, 600.0, None)


def beat(number: int) -> Heartbeat:
    return Heartbeat(number, "app", "", 0, 1, False)


def test_until_it_is_removed(watched: tuple[ServiceFolder, RequestWatch], clock: Clock) -> None:
    folder, watch = watched
    assert not watch.over()
    folder.remove(watch.name)
    assert watch.over()


def test_until_nobody_has_taken_it_for_too_long(watched: tuple[ServiceFolder, RequestWatch], clock: Clock) -> None:
    folder, watch = watched
    assert not watch.over()
    clock.now = 599.0
    assert not watch.over()
    clock.now = 601.0
    assert watch.over()
    assert not RequestWatch.from_json(watch.to_json()).over(), "another process, with another clock, counts anew"
    folder.beat("s", beat(1))
    folder.take(watch.name, "s")
    assert not watch.over(), "work may take as long as it takes"


def test_the_service_finds_a_new_sign_from_time_to_time(
    watched: tuple[ServiceFolder, RequestWatch], clock: Clock
) -> None:
    _, watch = watched
    signs = []
    for seconds in (0.0, WATCH_SECONDS - 1, 1.0, 1.0):
        clock.now += seconds
        assert not watch.over()
        signs.append(Path(watch.service, "watched", watch.name).stat().st_mtime_ns)
    assert signs[0] == signs[1] < signs[2] == signs[3]


def test_until_its_service_is_silent_for_too_long(watched: tuple[ServiceFolder, RequestWatch], clock: Clock) -> None:
    folder, watch = watched
    folder.beat("s", beat(1))
    folder.take(watch.name, "s")
    assert not watch.over()
    clock.now = SILENT_SECONDS - 1
    assert not watch.over()
    folder.beat("s", beat(2))
    assert not watch.over()
    clock.now = 2 * SILENT_SECONDS - 2
    assert not watch.over()
    clock.now = 2 * SILENT_SECONDS
    assert watch.over()
    assert not RequestWatch.from_json(watch.to_json()).over(), "another process counts anew"
    folder.leave("s")
    assert RequestWatch.from_json(watch.to_json()).over(), "the service says that it has ended"
