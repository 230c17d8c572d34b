"""What the broker's answers mean: at the beginning, at a restart, before a range, for a partition nobody planned."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_backfill.core.errors import KafkaLost, LandingAhead, SourceReplaced
from airflow_backfill.core.kafka.offsets import Batch, Offsets
from airflow_backfill.core.kafka.opening import Log, appeared, asked, asked_alone, opened, reopened
from airflow_backfill.core.kafka.scan import after_upstream, next_range
from airflow_backfill.core.kafka.split import Split
from airflow_backfill.core.kafka.state import Backfilling, CatchingUp, Finished
from airflow_backfill.core.values.epoch import EpochRange

VERSIONS = EpochRange(41, 42)
B, C, F = Backfilling, CatchingUp, Finished
B99 = Split(2, B(99), 300, read=100, written=100, scanned=99, landed=90, end=1000)


@pytest.mark.parametrize(
    ("log", "landed", "state"),
    [(Log(0, 0), None, F()), (Log(10, 10), 9, F()), (Log(10, 10), 5, F()), (Log(0, 10), None, B()),
     (Log(0, 10), 9, B()), (Log(4, 10), 2, B())],
    ids=str,
)  # fmt: skip
def test_a_split_has_history_if_the_log_has_any(log: Log, landed: int | None, state: object) -> None:
    split = opened(2, log, landed, None)
    assert (split.state, split.landed, split.end, split.read) == (state, landed, log.end, 0)
    assert split.target == (log.end - 1 if state == B() else None)
    assert next_range(split, 3) == (Offsets(log.start, log.start + 3) if state == B() else None)
    assert opened(2, log, landed, log.start) == split


@pytest.mark.parametrize(
    ("first", "landed", "state", "begin"),
    [
        (4, None, B(3), 4),
        (4, 2, B(3), 4),
        (4, 8, B(3), 4),
        (10, None, C(9), None),
        (10, 8, C(9), None),
        (10, 9, F(), None),
        (12, 9, C(11), None),
    ],
)
def test_history_can_start_later(first: int, landed: int | None, state: object, begin: int | None) -> None:
    split = opened(2, Log(0, 10), landed, first)
    assert split.state == state
    assert next_range(split, 100) == (None if begin is None else Offsets(begin, 10))
    assert Split.from_json(split.to_json()) == split


def test_a_landing_table_that_lags_behind_a_later_start_does_not_bring_what_is_before_it() -> None:
    split = opened(2, Log(0, 1000), 49, 100)
    split, visible = after_upstream(split, Batch(50, 60, 11), VERSIONS)
    assert (split.state, visible) == (C(99), None)
    split, visible = after_upstream(split, Batch(61, 120, 60), VERSIONS)
    assert (split.state, visible) == (F(), Offsets(100, 121))

    split = opened(2, Log(0, 10), 8, 12)
    split, visible = after_upstream(split, Batch(9, 13, 5), VERSIONS)
    assert (split.state, visible) == (F(), Offsets(12, 14))


def test_a_later_start_that_has_expired_is_lost() -> None:
    with pytest.raises(KafkaLost) as lost:
        opened(2, Log(5, 10), None, 4)
    assert lost.value.data == {"partition": 2, "wanted": 4, "have": 5, "missing": 1}


@pytest.mark.parametrize("log", [Log(0, 10), Log(10, 10), Log(0, 0)], ids=str)
def test_a_landing_table_ahead_of_the_broker_is_refused(log: Log) -> None:
    for begin in (lambda: opened(2, log, log.end, None), lambda: appeared(2, log, None, log.end)):
        with pytest.raises(LandingAhead) as ahead:
            begin()
        assert ahead.value.retry
        assert ahead.value.data == {"partition": 2, "landed": log.end, "end": log.end}


@pytest.mark.parametrize(
    ("log", "landed", "first_landed", "state"),
    [
        (Log(0, 4), None, 0, F()),
        (Log(0, 10), None, 5, B()),
        (Log(5, 10), None, 5, F()),
        (Log(5, 10), None, 4, F()),
        (Log(0, 10), 3, 4, B()),
        (Log(0, 10), None, None, B()),
        (Log(0, 0), None, None, F()),
    ],
    ids=str,
)
def test_a_partition_that_nobody_planned(log: Log, landed: int | None, first_landed: int | None, state: object) -> None:
    split = appeared(2, log, landed, first_landed)
    assert (split.state, split.landed, split.end) == (state, landed, log.end)
    assert split.target == (log.end - 1 if state == B() else None)
    assert Split.from_json(split.to_json()) == split


@pytest.mark.parametrize(("landed", "first_landed"), [(None, None), (None, 6), (3, 4)])
def test_of_a_partition_that_nobody_planned_nothing_may_be_gone(landed: int | None, first_landed: int | None) -> None:
    """Unless it lands from there on: what is gone may have landed, and come later than the history."""
    with pytest.raises(KafkaLost) as lost:
        appeared(2, Log(5, 10), landed, first_landed)
    assert lost.value.data == {"partition": 2, "wanted": 0, "have": 5, "missing": 5}
    assert "skip" not in lost.value.message and "on_existing='restart'" in lost.value.message
    assert ("from offset 5 on" in lost.value.message) == (landed is None)


def test_no_data_at_a_restart_is_not_believed() -> None:
    split = opened(2, Log(0, 10), None, None)
    split, _ = after_upstream(split, Batch(5, 9, 5), VERSIONS)
    for answer in (asked, reopened):
        with pytest.raises(KafkaLost) as lost:
            answer(split, Log(10, 10))
        assert lost.value.data == {"partition": 2, "wanted": 0, "have": 10, "missing": 10}


def test_an_end_before_a_landed_row_is_another_topic() -> None:
    split = replace(B99, landed=1200)
    with pytest.raises(SourceReplaced) as replaced:
        asked(split, Log(0, 1200))
    assert replaced.value.data == {"partition": 2, "end": 1200, "known": 1201}
    assert asked(split, Log(0, 1201)).end == 1201


def test_the_target_is_the_brokers_end_again_at_a_restart_until_a_row_lands() -> None:
    split = reopened(B99, Log(0, 5001))
    assert (split.state, split.target, split.end) == (B(99), 5000, 5001)
    split, _ = after_upstream(split, Batch(310, 310, 1), VERSIONS)
    assert (split.target, split.credit) == (310, 310) and reopened(split, Log(0, 5002)).credit == 310


def test_asked_in_the_middle_of_an_attempt_the_target_stands() -> None:
    split = asked(B99, Log(100, 5001))
    assert split == replace(B99, end=5001)
    with pytest.raises(KafkaLost):
        asked(B99, Log(101, 5001))


@pytest.mark.parametrize("state", [C(99), F()], ids=str)
def test_what_has_stopped_needs_no_log_any_more(state: C | F) -> None:
    split = replace(B99, state=state, cut=99)
    for answer in (asked, reopened):
        assert answer(split, Log(5001, 5001)) == replace(split, end=5001)


def test_the_way_out_of_a_topic_without_a_landing_table_does_not_need_one() -> None:
    planned = opened(2, Log(0, 10), None, None)
    with pytest.raises(SourceReplaced, match=r"plan again with .*; if the topic has a landing"):
        asked_alone(planned, Log(0, 5))
