"""Requests to a service and heartbeats: what is written is what is read, and nothing else is read."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_backfill.core.errors import RecordInvalid
from airflow_backfill.core.service.heartbeat import Heartbeat
from airflow_backfill.core.service.request import Request, of_attempt
from airflow_backfill.core.values.attempt import Attempt

REQUEST = Request("snapshot", "/t", Attempt(7, "abc"), ("--target", "/t", "--full"), 1_700_000_000_000)
BEAT = Heartbeat(3, "app-1", "http://spark", 1_700_000_000_000, 2, False)


def test_what_is_written_is_read() -> None:
    assert Request.from_json(REQUEST.to_json()) == REQUEST
    assert Heartbeat.from_json(BEAT.to_json()) == BEAT


def test_older_requests_sort_first() -> None:
    times = [1, 99, 100, 1_700_000_000_000]
    names = [Request("plan", "/t", Attempt(1, "z"), (), time).name for time in times]
    assert names == sorted(names)
    assert len({Request("plan", "/t", Attempt(1, name), (), 5).name for name in "abc"}) == 3
    assert of_attempt([REQUEST.name, "1-b.json"], "abc") == REQUEST.name
    assert of_attempt(["1-xabc.json"], "abc") is None


WRONG: list[dict[str, Any]] = [
    *({"format": format_} for format_ in (2, "1", None)),
    *({"generation": number} for number in (0, -1, "7", True, 1.0)),
    *({"arguments": arguments} for arguments in ("--target", [1], [""], None, {})),
    *({name: value} for name in ("application", "target", "attempt") for value in ("", 1, None)),
    {"asked": -1},
    {"more": 1},
]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_another_document_is_no_request(wrong: dict[str, Any]) -> None:
    with pytest.raises(RecordInvalid, match="one version of the package"):
        Request.from_json(REQUEST.to_json() | wrong)


@pytest.mark.parametrize(
    "wrong", [{"number": -1}, {"draining": 1}, {"application": None}, {"ui": 3}, {"more": 1}], ids=str
)
def test_another_document_is_no_heartbeat(wrong: dict[str, Any]) -> None:
    with pytest.raises(RecordInvalid, match="not a heartbeat"):
        Heartbeat.from_json(BEAT.to_json() | wrong)


@pytest.mark.parametrize("wrong", [None, [], "x", 3])
def test_other_json(wrong: Any) -> None:
    for read in (Request.from_json, Heartbeat.from_json):
        with pytest.raises(RecordInvalid):
            read(wrong)
