"""What is stored of an announcement, and what continues the lane of announcements."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_backfill.core.errors import RecordInvalid
from airflow_backfill.core.model.announcement import Announced, Announcement, Kind, announcement, decode
from airflow_backfill.core.values.commit import Commit
from airflow_backfill.core.values.epoch import EpochRange

ONE = Announcement("b", "p", 3, 4, "a", 10, 9, Kind.EPOCHS, 12, EpochRange(11, 13))
LANE = Announced(seen=10, version=8, seq=2, generation=4, attempt="a")


def test_an_announcement_comes_back() -> None:
    assert decode(ONE.encode()) == ONE
    lane = LANE.after(11, ONE)
    assert lane == Announced(12, 11, 3, 4, "a", True)
    end = replace(ONE, kind=Kind.CAUGHT_UP, seq=4, epochs=None)
    assert decode(end.encode()) == end and not lane.after(12, end).open


@pytest.mark.parametrize(
    "changes",
    [
        {"seq": 2},
        {"seq": 4},
        {"attempt": "another"},
        {"attempt": "another", "kind": Kind.CLAIM, "epochs": None, "seen": 10},
        {"epochs": EpochRange(12, 13)},
        {"epochs": EpochRange(10, 13)},
        {"seen": 13},
        {"epochs": None},
        {"kind": Kind.CAUGHT_UP},
        {"kind": Kind.CLAIM},
    ],
    ids=str,
)
def test_what_does_not_continue_the_lane_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(RecordInvalid):
        LANE.after(11, replace(ONE, **changes))  # type: ignore[arg-type]


def test_nothing_follows_the_end() -> None:
    with pytest.raises(RecordInvalid):
        replace(LANE, open=False).after(11, ONE)


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", ONE.encode().replace('"seq":3', '"seq":"3"'), ONE.encode().replace('"kind"', '"kin"')]
)
def test_what_is_damaged_is_refused(text: str) -> None:
    with pytest.raises(RecordInvalid):
        decode(text)


def test_metadata_without_its_transaction_announces_nothing() -> None:
    assert announcement(Commit(11, user_metadata=ONE.encode(), txns={"b/seen": 3})) == ONE
    for txns in ({}, {"b/seen": 2}, {"b/1/0": 3}):
        assert announcement(Commit(11, user_metadata=ONE.encode(), txns=txns)) is None
