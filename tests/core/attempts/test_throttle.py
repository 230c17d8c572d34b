"""The rate that is ordered is kept in every window and used up, in the snapshot and in the log."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from airflow_backfill.core.attempts.attempt import HEARTBEAT_MS
from airflow_backfill.core.attempts.goals import CatchUpGoal, ConsumeLogGoal, Goal, SnapshotGoal, UpstreamGoal
from airflow_backfill.core.attempts.throttle import POLL_MS
from airflow_backfill.core.errors import NotConverging
from airflow_backfill.core.state.effect import CommitOutcome, CommitRecord, FileSize, SleepUntil
from airflow_backfill.core.values.control import Command, Control, Verb
from airflow_backfill.core.values.phase import Event
from airflow_backfill.core.values.round_size import RoundSize
from tests.core.attempts.runs import events, files_read
from tests.core.builds import planned, sealed
from tests.core.histories import barriers
from tests.core.model_target import NO_LAG, PATIENCE, Model
from tests.core.running import Running
from tests.core.tasks import ONE_FILE, SNAPSHOT, V

CONSUME_ALL = ConsumeLogGoal(RoundSize(), NO_LAG, PATIENCE)
HOUR = 3_600_000


def heaviest(rounds: list[tuple[int, int]], window: int) -> int:
    """The most rows that were begun within any half-open window of that many milliseconds."""
    best = total = first = 0
    for at, rows in rounds:
        total += rows
        while rounds[first][0] <= at - window:
            total -= rounds[first][1]
            first += 1
        best = max(best, total)
    return best


def an_hour(model: Model, attempts: list[Running]) -> None:
    """Let attempts run side by side for an hour of the model's time: who is due first goes first."""
    end = model.now + HOUR
    wakes = {n: model.now for n in range(len(attempts))}
    while wakes and min(wakes.values()) < end:
        n = min(wakes, key=lambda n: wakes[n])
        model.now, attempt = max(model.now, wakes[n]), attempts[n]
        if attempt.ended:
            del wakes[n]
        elif isinstance(attempt.waits_at, SleepUntil):
            wakes[n] = max(model.now, attempt.waits_at.until)
            attempt.step(CommitOutcome())
        else:
            attempt.step()


@pytest.mark.parametrize("of", ["rate", "byte_rate"])
@pytest.mark.parametrize(("rate", "unit", "write_ms"), [(100, 10, 0), (100, 700, 900), (7, 1, 300), (50, 3_000, 0)])
def test_the_rate_is_kept_in_every_window_and_used_up(rate: int, unit: int, write_ms: int, of: str) -> None:
    model = Model([FileSize(unit, unit)] * (rate * 5_000 // unit), splits=8)
    model.plan()
    model.write_ms = write_ms
    model.order(Command(Verb.THROTTLE, **{of: rate}))
    an_hour(model, [model.start(SnapshotGoal(0, 1, RoundSize(10**9, 10**6)))])
    largest = max(rows for _, rows in model.rounds)
    assert largest <= 5 * rate + unit
    for window in (1_000, 10_000, 60_000, HOUR):
        assert heaviest(model.rounds, window) <= rate * window // 1000 + largest
    assert sum(rows for _, rows in model.rounds) >= rate * HOUR // 1000


def test_a_restart_earns_no_rows() -> None:
    """Killed after every round, all day: the time of the next unit stands in the record."""
    rate, unit = 10, 100
    model = Model([FileSize(1, unit)] * 500, splits=4)
    model.plan()
    model.order(Command(Verb.THROTTLE, rate))
    end = model.now + HOUR
    while model.now < end:
        attempt, done = model.start(SnapshotGoal(0, 1, ONE_FILE)), len(model.rounds)
        while not attempt.ended and len(model.rounds) == done and model.now < end:
            attempt.step()
    assert heaviest(model.rounds, 60_000) <= rate * 60 + unit
    assert sum(rows for _, rows in model.rounds) >= rate * HOUR // 1000 - unit


@pytest.mark.slow
@pytest.mark.parametrize("lanes", [2, 4])
def test_lanes_share_the_rate(lanes: int) -> None:
    rate, unit = 100, 20
    model = Model([FileSize(1, unit)] * (rate * 5_000 // unit), splits=8)
    model.plan(lanes=lanes)
    model.order(Command(Verb.THROTTLE, rate))
    size = RoundSize(10**9, 10**6)
    an_hour(model, [model.start(SnapshotGoal(lane, lanes, size)) for lane in range(lanes)])
    largest = max(rows for _, rows in model.rounds)
    for window in (10_000, 60_000, HOUR):
        assert heaviest(model.rounds, window) <= rate * window // 1000 + lanes * largest
    assert sum(rows for _, rows in model.rounds) >= 0.9 * rate * HOUR // 1000


def test_a_lane_gets_the_whole_rate_while_the_others_wait_for_their_turn() -> None:
    rate = 100
    model = Model([FileSize(1, 200)] * 8_000, splits=8)
    model.plan(lanes=4)
    model.order(Command(Verb.THROTTLE, rate))
    an_hour(model, [model.start(SnapshotGoal(0, 4, RoundSize(10**9, 10**6)))])
    read = sum(rows for _, rows in model.rounds)
    assert 0.9 * rate * HOUR // 1000 <= read <= 1.1 * rate * HOUR // 1000


def test_the_last_lane_with_work_gets_the_whole_rate() -> None:
    rate = 100
    model = Model([FileSize(1, 20)] * 4_000, splits=3)
    model.plan(lanes=2)
    model.order(Command(Verb.THROTTLE, rate))
    first = SnapshotGoal(1, 2, RoundSize(10**9, 10**6))
    model.run(first)
    model.rounds.clear()
    an_hour(model, [model.start(SnapshotGoal(0, 2, RoundSize(10**9, 10**6)))])
    began = model.rounds[0][0]
    some = [r for r in model.rounds if began + 60_000 <= r[0] < began + 360_000]
    assert sum(rows for _, rows in some) >= 0.9 * rate * 300


def test_a_throttle_that_is_lifted_holds_nothing_back_any_more() -> None:
    model = planned(files=40)
    model.order(Command(Verb.THROTTLE, 1))
    attempt = model.start(SNAPSHOT)
    attempt.until(SleepUntil, nth=3)
    began = model.now
    model.order(Command(Verb.THROTTLE, None))
    attempt.finish()
    assert model.now - began <= POLL_MS and files_read(model) == Counter(range(40))


def test_a_throttled_attempt_still_acknowledges_and_watches() -> None:
    model = planned(files=100)
    model.order(Command(Verb.THROTTLE, 1))
    attempt, began = model.start(SNAPSHOT), model.now
    for minute in range(10):
        while model.now < began + minute * 60_000:
            attempt.until(SleepUntil)
            attempt.step()
        model.write()
    pending = [record.pending for record in model.records() if record.pending is not None]
    assert pending[-1].head >= V + 8
    assert max(b.at - a.at for a, b in pairwise(pending)) <= HEARTBEAT_MS + POLL_MS
    number = model.order(Command(Verb.HOLD))
    attempt.until(CommitRecord)
    attempt.until(SleepUntil)
    assert model.state().control.number == number


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "of"), [(10, "rate"), (200, "byte_rate")])
def test_the_throttle_holds_in_the_log_too_and_is_named_when_it_cannot_contract(rows: int, of: str) -> None:
    """Also when the rounds are so far apart that the record has to be renewed between them."""
    model = sealed()
    model.rounds.clear()
    model.write(rows=rows, size=rows, times=20)
    model.order(Command(Verb.THROTTLE, **{of: 1}))
    attempt = model.start(ConsumeLogGoal(RoundSize(10**9, rows), NO_LAG, PATIENCE))
    with pytest.raises(NotConverging, match="throttle"):
        while not attempt.ended:
            if isinstance(attempt.waits_at, CommitRecord) and attempt.waits_at.record.event is Event.EPOCHS:
                model.write(rows=rows, size=rows, times=2)
            attempt.step()
        attempt.finish()
    assert heaviest(model.rounds, 10_000) <= 10 + rows and ("mark" in events(model)) == (rows == 200)


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "times"), [(36_000, 1), (1, 600), (70, 60)])
@pytest.mark.parametrize("phase", ["consume_log", "catch_up", "upstream"])
def test_the_log_passes_a_throttle_in_units_of_seconds(rows: int, times: int, phase: str) -> None:
    """A large epoch in parts, small ones a few at a time: never at once what takes hours, and nothing is wasted."""
    model, rate = Model(), 10
    model.finished() if phase == "upstream" else model.sealed()
    model.rounds.clear()
    model.write(rows=rows, times=times)
    tasks: dict[str, Goal] = {
        "consume_log": CONSUME_ALL,
        "catch_up": CatchUpGoal(RoundSize(), NO_LAG, PATIENCE),
        "upstream": UpstreamGoal(RoundSize(), upto=model.source.head),
    }
    model.order(Command(Verb.THROTTLE, rate))
    begun = model.now
    an_hour(model, [model.start(tasks[phase])])
    assert sum(n for _, n in model.rounds) == pytest.approx(rows * times, rel=0.01)
    assert max(n for _, n in model.rounds) <= 30 * rate
    for window in (1_000, 10_000, 60_000, HOUR):
        assert heaviest(model.rounds, window) <= rate * window // 1000 + 30 * rate
    assert model.rounds[-1][0] - begun <= 1000 * rows * times / rate


def test_bytes_hold_the_log_too() -> None:
    model = sealed()
    model.rounds.clear()
    model.write(rows=1, size=1_000, times=20)
    model.order(Command(Verb.THROTTLE, byte_rate=100))
    begun = model.now
    model.run(CONSUME_ALL)
    assert model.now - begun >= 19 * 10_000 and heaviest(model.rounds, 10_000) == 1


def test_another_rate_is_in_force_at_once_whatever_the_one_before_it_would_wait_for() -> None:
    """An epoch that cannot be parted is waited for afterwards, for hours: until somebody says otherwise."""
    model = sealed(rows=1, size=2_000_000, times=2)
    model.order(Command(Verb.THROTTLE, byte_rate=100))
    attempt = model.start(CONSUME_ALL)
    attempt.until(SleepUntil)
    begun = model.now
    for _ in range(5):
        assert attempt.until(SleepUntil).until - model.now <= POLL_MS
        attempt.step()
    model.order(Command(Verb.THROTTLE, byte_rate=10**9))
    attempt.finish()
    assert model.now - begun <= 6 * POLL_MS


@pytest.mark.parametrize("rate", [0, 10])
def test_a_throttle_with_an_end_is_lifted_by_itself_and_the_next_record_says_so(rate: int) -> None:
    """40 files of 10 rows: at 10 rows a second they take 40 s, and the throttle ends after 20."""
    model = Model([FileSize(100, 10)] * 40)
    model.plan()
    end = model.now + 20_000
    model.order(Command(Verb.THROTTLE, rate, until=end))
    model.run(SNAPSHOT)
    found = [(barrier.at, barrier.record.control) for barrier in barriers(model) if barrier.record.event is Event.FILES]
    before, after = [one for one in found if one[0] < end], [one for one in found if one[0] >= end]
    assert after and all(control == Control(1) for _, control in after)
    assert all(control == Control(1, rate=rate, until=end) for _, control in before) and bool(before) == bool(rate)
    assert model.now < end + POLL_MS, "nothing is waited for afterwards"


def test_a_clock_that_goes_back_brings_no_throttle_back() -> None:
    model = Model([FileSize(100, 10)] * 4)
    model.plan()
    model.order(Command(Verb.THROTTLE, 0, until=model.now + 1_000))
    model.now += 1_000
    attempt = model.start(SNAPSHOT)
    attempt.until(CommitRecord, nth=3)
    model.now -= 500_000
    attempt.finish()
    assert model.state().read and model.state().control == Control(1)


def test_the_hours_of_a_clock_that_was_ahead_are_not_waited_for() -> None:
    """The driver before had a wrong clock. One unit comes early, then the rate is kept again."""
    model = Model([FileSize(100, 10)] * 40)
    model.plan()
    model.order(Command(Verb.THROTTLE, rate=10))
    model.now += HOUR
    model.start(SnapshotGoal(0, 1, ONE_FILE)).until(CommitRecord, nth=4)
    model.now -= HOUR
    begun, done = model.now, len(model.rounds)
    model.run(SnapshotGoal(0, 1, ONE_FILE))
    assert len(model.rounds) - done >= 30
    assert 30_000 <= model.now - begun <= 45_000
