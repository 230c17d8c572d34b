from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_backfill.core.reports.rehearsal import HOUR, Replay, course, described, rehearse
from airflow_backfill.core.reports.speeds import Speeds
from airflow_backfill.core.source.epoch import Epoch
from airflow_backfill.core.values.round_size import RoundSize

NOW = 1_800_000_000_000 // HOUR * HOUR
SPEEDS = Speeds(copy_bytes=1e8, apply_rows=1_000, round_seconds=4)


def steady(rows: int, every: int, seconds: int = 86_400) -> Replay:
    """An epoch of so many rows every so many seconds."""
    count = seconds // every
    return Replay([Epoch(n, NOW - 1000 * every * (count - n), rows, 1) for n in range(count)], NOW)


def test_the_past_comes_again_and_again() -> None:
    replay = steady(rows=10, every=60, seconds=600)
    assert [replay.epochs(seconds) for seconds in (0, 1, 60, 61, 600, 601, 1201)] == [0, 1, 1, 2, 10, 11, 21]
    assert replay.rows(25) == 250 and replay.time(11) == 660 and replay.load(SPEEDS) == pytest.approx(1 / 6_000)


def test_a_calm_source_is_caught_up_with_in_one_round() -> None:
    found = rehearse(steady(rows=100, every=60), 600, SPEEDS, RoundSize())
    assert (found["converges"], found["pending_after_snapshot"], found["log_seconds"]) == (True, 10, 5.0)
    assert found["worst_lag_seconds"] < 60 and found["replayed_epochs"] == 1440
    text = "\n".join(described(found))
    assert "10 epochs pending, caught up 5 seconds later" in text and "as usual" in text


def test_what_is_pending_is_applied_while_more_comes() -> None:
    """At 500 rows/s against 1,000 the log takes as long as the snapshot: the series of its halves."""
    found = rehearse(steady(rows=5_000, every=10), 3_600, SPEEDS, RoundSize(rows=10**6))
    assert found["converges"] and 0.75 * 3_600 < found["log_seconds"] < 1.1 * 3_600


def test_a_source_that_is_too_fast_is_never_caught_up_with() -> None:
    found = rehearse(steady(rows=60_000, every=60), 60, SPEEDS, RoundSize())
    assert not found["converges"] and found["best_start"] is None
    assert "never catches up" in "\n".join(described(found))


def test_an_epoch_costs_something_however_small_it_is() -> None:
    """An epoch of a row every second: with 0.5 s for each, half of the time is left; with 1 s, none."""
    replay, size = steady(rows=1, every=1), RoundSize()
    swift, slow = (rehearse(replay, 1_000, replace(SPEEDS, epoch_seconds=each), size) for each in (0.5, 1.0))
    assert swift["converges"] and 700 < swift["log_seconds"] < 1_300
    assert not slow["converges"]


def test_changes_that_touch_all_files_take_as_long_as_reading_the_keys_of_the_table() -> None:
    """A table of 1,000 files of 1 GB each at 100 MB per second to copy, so 1 GB to read keys: at most 1,000 s."""

    def log_seconds(files: int, only_adds: bool = False) -> float:
        past = [Epoch(n, NOW - HOUR * (24 - n), 100, 1, files=files, only_adds=only_adds) for n in range(24)]
        found = rehearse(Replay(past, NOW, 1_000, 1e9), 34_000, SPEEDS, RoundSize())
        assert found["pending_after_snapshot"] == 10
        return found["log_seconds"]

    assert log_seconds(2 * 50) == pytest.approx(4 + 1 + 10 * 50, abs=1)
    assert log_seconds(2 * 500) == pytest.approx(4 + 1 + 1_000, abs=1), "no file is read twice in a round"
    assert log_seconds(100, only_adds=True) == 5.0, "rows that are added are looked for in no file"


def test_the_first_round_of_the_log_compiles() -> None:
    cold, warm = (
        rehearse(steady(100, 60), 600, replace(SPEEDS, log_warm_up_seconds=each), RoundSize()) for each in (3, 0)
    )
    assert cold["log_seconds"] == warm["log_seconds"] + 3


def test_where_others_work_on_the_same_cores_all_of_it_takes_longer() -> None:
    usual = Speeds.usual(2)
    alone, beside = (rehearse(steady(100, 60), 600, speeds, RoundSize()) for speeds in (usual, usual.crowded(2.0)))
    assert beside["log_seconds"] == pytest.approx(2 * alone["log_seconds"], abs=0.2)
    assert beside["copy_bytes_per_second"] * 2 == alone["copy_bytes_per_second"]
    assert "everything takes 2 times as long" in described(beside)[0] and "times as long" not in described(alone)[0]


def test_the_best_hour_is_the_one_after_the_rush() -> None:
    """At 5 to 8 o'clock come 2,000 rows a second, which is more than is applied; else nearly nothing."""
    day = NOW // (24 * HOUR) * (24 * HOUR)
    epochs = [Epoch(n, day + n * 60_000, 120_000 if 5 <= n // 60 < 8 else 60, 1) for n in range(24 * 60)]
    replay = Replay(epochs, day + 24 * HOUR)
    found = rehearse(replay, 1_800, SPEEDS, RoundSize())
    assert found["best_start"]["hour"] not in (4, 5, 6, 7, 8) and found["worst_lag_seconds"] > 3_600
    assert course(replay, 1_800, SPEEDS, RoundSize(), 5 * 3600.0).caught_up > 3_600


def test_a_source_without_a_past_is_caught_up_with() -> None:
    found = rehearse(Replay([], NOW), 60, SPEEDS, RoundSize())
    assert (found["converges"], found["pending_after_snapshot"], found["replayed_epochs"]) == (True, 0, 0)


@given(
    st.lists(st.tuples(st.integers(0, 3_600_000), st.integers(0, 10**6)), max_size=30),
    st.floats(0, 1e5),
    st.floats(1, 1e6),
    st.integers(1, 10**6),
)
def test_any_past_has_a_course(past: list[tuple[int, int]], snapshot: float, rate: float, rows: int) -> None:
    epochs = [Epoch(n, NOW - before, size, 1) for n, (before, size) in enumerate(sorted(past, reverse=True))]
    replay = Replay(epochs, NOW)
    found = course(replay, snapshot, Speeds(1, rate), RoundSize(rows=rows))
    assert found.pending >= 0 and (found.caught_up is None or found.caught_up >= 0)
    if replay.load(Speeds(1, rate)) >= 1:
        assert found.caught_up is None
