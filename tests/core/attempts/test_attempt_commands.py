from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from airflow_backfill.core.attempts.attempt import HEARTBEAT_MS
from airflow_backfill.core.attempts.goals import (
    CatchUpGoal,
    ConsumeLogGoal,
    Goal,
    ResumeGoal,
    SnapshotGoal,
    UpstreamGoal,
)
from airflow_backfill.core.attempts.throttle import POLL_MS
from airflow_backfill.core.errors import BackfillError, Cancelled, Interrupted, NotConverging
from airflow_backfill.core.gates.max_lag import MaxLag
from airflow_backfill.core.state.effect import (
    AppendFiles,
    ApplyEpochs,
    CommitOutcome,
    CommitRecord,
    FileSize,
    ReadCommands,
    SleepUntil,
    VerifyTarget,
)
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.core.values.phase import Event, Phase
from airflow_backfill.core.values.round_size import RoundSize
from tests.core.attempts.runs import epochs_applied, events, files_read
from tests.core.builds import caught_up, planned, sealed, writing
from tests.core.model_target import NO_LAG, PATIENCE, ROUND, Model, Running
from tests.core.tasks import CANCEL, CATCH_UP, CONSUME, FINISH, ONE_FILE, SNAPSHOT, VERIFY, V, follow

CONSUME_ALL = ConsumeLogGoal(RoundSize(), NO_LAG, PATIENCE)

# --- commands ---


def test_a_pause_is_acknowledged_at_the_next_barrier_and_no_row_follows() -> None:
    model = planned()
    attempt = writing(model, SNAPSHOT, 3)
    rounds = len(model.rounds) + 1
    number = model.order(Command(Verb.PAUSE))
    attempt.until(SleepUntil)
    assert model.state().control.number == number and len(model.rounds) == rounds
    for _ in range(30):
        attempt.step()
        attempt.until(SleepUntil)
    assert len(model.rounds) == rounds
    model.order(Command(Verb.RESUME))
    attempt.finish()
    assert files_read(model) == Counter(range(6))


def test_a_rate_of_0_lets_no_row_through() -> None:
    model = planned()
    model.order(Command(Verb.THROTTLE, 0))
    attempt = model.start(SNAPSHOT)
    for _ in range(20):
        attempt.until(SleepUntil)
        assert attempt.waits_at.why == "the rate is 0"  # type: ignore[union-attr]
        attempt.step()
    assert not model.rounds


def test_a_paused_attempt_looks_at_the_commands_every_few_seconds_and_renews_its_record() -> None:
    model = planned()
    model.order(Command(Verb.PAUSE))
    attempt, began = model.start(SNAPSHOT), model.now
    attempt.until(SleepUntil)
    while model.now < began + 10 * HEARTBEAT_MS:
        attempt.until(SleepUntil)
        assert attempt.waits_at.until - model.now <= POLL_MS  # type: ignore[union-attr]
        attempt.step()
        if model.now == began + 3 * HEARTBEAT_MS:
            model.write(times=4)
    seen = [record.pending for record in model.records() if record.pending is not None]
    assert [p.at for p in seen] == sorted(p.at for p in seen)
    assert max(b.at - a.at for a, b in pairwise(seen)) <= HEARTBEAT_MS + POLL_MS
    assert (seen[0].epochs, seen[-1].epochs) == (0, 4)


def test_commands_act_in_every_phase_that_moves_rows() -> None:
    model = sealed(rows=5, times=2)
    for task in (CONSUME, CATCH_UP):
        model.order(Command(Verb.PAUSE))
        attempt = model.start(task)
        attempt.until(SleepUntil)
        assert attempt.waits_at.why == "paused"  # type: ignore[union-attr]
    assert not epochs_applied(model)
    model.order(Command(Verb.RESUME))
    model.run(CONSUME)
    assert epochs_applied(model) == Counter((8, 9))


def paused(model: Model, task: Goal) -> None:
    """No row moves while the task is paused; then it ends."""
    rounds, number = len(model.rounds), model.order(Command(Verb.PAUSE))
    attempt = model.start(task)
    for _ in range(20):
        attempt.until(SleepUntil)
        attempt.step()
    assert (len(model.rounds), model.state().control.number) == (rounds, number)
    model.order(Command(Verb.RESUME))
    attempt.finish()
    assert len(model.rounds) > rounds


def test_a_pause_stops_the_last_epochs_and_the_follower_too() -> None:
    model = sealed(times=3)
    pinned = model.start(CatchUpGoal(ROUND, MaxLag(epochs=9), PATIENCE))
    while model.state().phase is not Phase.CATCH_UP:
        pinned.step()
    paused(model, CATCH_UP)
    model.finished_after_proof()
    for _ in ("the first epoch after the hand-off", "the next"):
        model.write()
        paused(model, follow(model.source.head))
    assert epochs_applied(model) == Counter(range(8, 13))


@pytest.mark.parametrize("borders", [None, ("10L",)], ids=["files", "ranges"])
@pytest.mark.parametrize("verb", [Verb.PAUSE, Verb.HOLD])
def test_a_pause_outlives_every_attempt_and_is_in_force_from_the_first_round_on(
    borders: tuple[str, ...] | None, verb: Verb
) -> None:
    """A hold does, too, and lets rows pass."""
    model = planned(borders=borders)
    model.order(Command(verb))
    for _ in range(4):
        attempt = model.start(SNAPSHOT)
        while not attempt.ended and not isinstance(attempt.waits_at, SleepUntil):
            attempt.step()
        model.write()
    assert (model.state().control.paused, model.state().control.held) == (verb is Verb.PAUSE, verb is Verb.HOLD)
    assert model.state().read == (verb is Verb.HOLD) and bool(model.rounds) == (verb is Verb.HOLD)


def test_a_hold_stops_no_row() -> None:
    model = planned()
    model.order(Command(Verb.HOLD))
    state = model.run(SNAPSHOT)
    assert state.sealed and state.control.held


@pytest.mark.parametrize("writes", [1, 2, 3, 5])
def test_after_a_cancel_no_row_is_written(writes: int) -> None:
    model = planned()
    attempt = model.start(SNAPSHOT)
    attempt.until(CommitRecord, nth=writes)
    model.order(Command(Verb.CANCEL))
    with pytest.raises(Cancelled):
        attempt.finish()
    rounds = len(model.rounds)
    assert rounds == writes - 1 if writes > 1 else rounds == 0
    assert model.run(CANCEL).phase is Phase.CANCELLED
    for task in (SNAPSHOT, CONSUME, CATCH_UP, VERIFY, FINISH, follow(9)):
        with pytest.raises(Cancelled):
            model.run(task)
    assert len(model.rounds) == rounds


def test_a_resumed_build_goes_on_where_it_was() -> None:
    model = planned()
    attempt = writing(model, SNAPSHOT, 4)
    number = model.order(Command(Verb.CANCEL))
    model.run(CANCEL)
    state = model.run(ResumeGoal(number))
    assert (state.phase, state.control.cancelled) == (Phase.SNAPSHOT, False)
    model.run(SNAPSHOT)
    assert files_read(model) == Counter(range(6))
    with pytest.raises(BackfillError):
        attempt.finish()
    assert files_read(model) == Counter(range(6))


def test_an_old_cancel_does_not_come_back_after_a_resume() -> None:
    model = planned()
    number = model.order(Command(Verb.CANCEL))
    model.run(CANCEL)
    model.run(ResumeGoal(number))
    assert model.run(SNAPSHOT).sealed


# --- inside a round ---

INTERRUPTED = Interrupted("paused")


def test_a_pause_inside_a_round_is_acknowledged_and_the_round_is_done_afterwards() -> None:
    model = planned()
    attempt = writing(model, SNAPSHOT, 3)
    number = model.order(Command(Verb.PAUSE))
    attempt.step(CommitOutcome(error=INTERRUPTED))
    assert attempt.until(SleepUntil).why == "paused"
    assert (model.state().control.number, len(model.rounds)) == (number, 1)
    model.order(Command(Verb.RESUME))
    attempt.finish()
    assert files_read(model) == Counter(range(6))


def test_a_round_that_landed_before_it_could_be_interrupted_counts_once() -> None:
    model = planned()
    attempt = model.start(SNAPSHOT)
    model.answer(attempt.until(CommitRecord, nth=3))
    model.order(Command(Verb.PAUSE))
    attempt.step(CommitOutcome(error=INTERRUPTED))
    attempt.until(SleepUntil)
    model.order(Command(Verb.RESUME))
    attempt.finish()
    assert files_read(model) == Counter(range(6))


def test_a_cancel_inside_a_round_ends_the_attempt_without_it() -> None:
    model = planned()
    attempt = writing(model, SNAPSHOT, 3)
    model.order(Command(Verb.CANCEL))
    attempt.step(CommitOutcome(error=Interrupted("cancelled")))
    with pytest.raises(Cancelled):
        attempt.finish()
    assert len(model.rounds) == 1
    assert model.run(CANCEL).phase is Phase.CANCELLED


def test_pausing_again_and_again_is_no_contention_and_stops_nothing_for_ever() -> None:
    """Every round that may be interrupted is; one in four may not."""
    model, spared, interrupted = planned(), [False], 0
    attempt = model.start(SNAPSHOT)
    while not attempt.ended:
        effect = attempt.waits_at
        if isinstance(effect, ReadCommands):
            spared[0] = effect.spared
        if isinstance(effect, CommitRecord) and isinstance(effect.work, AppendFiles) and not spared[0]:
            model.order(Command(Verb.PAUSE))
            attempt.step(CommitOutcome(error=INTERRUPTED))
            model.order(Command(Verb.RESUME))
            interrupted += 1
        else:
            attempt.step()
    assert attempt.error is None
    assert interrupted == 18
    assert files_read(model) == Counter(range(6))


def test_a_pause_inside_a_verification_is_acknowledged_and_it_goes_on_afterwards() -> None:
    model = caught_up()
    attempt = model.start(VERIFY)
    attempt.until(VerifyTarget)
    number = model.order(Command(Verb.PAUSE))
    attempt.step(INTERRUPTED)
    assert attempt.until(SleepUntil, nth=2).why == "paused"
    assert model.state().control.number == number
    model.order(Command(Verb.RESUME))
    assert attempt.finish().certificate is not None


def test_a_cancel_inside_a_verification_ends_it() -> None:
    model = caught_up()
    attempt = model.start(VERIFY)
    attempt.until(VerifyTarget)
    model.order(Command(Verb.CANCEL))
    attempt.step(Interrupted("cancelled"))
    with pytest.raises(Cancelled):
        attempt.finish()


# --- the throttle ---

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
@pytest.mark.parametrize(("rows", "times"), [(36_000, 1), (1, 3_000), (70, 60)])
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


# --- how long rounds take ---


def test_rounds_that_take_long_are_halved_and_small_again_when_they_are_short() -> None:
    model = sealed(times=8_000)
    attempt, taken = model.start(CONSUME_ALL), []
    while not attempt.ended:
        write = attempt.waits_at
        if isinstance(write, CommitRecord) and isinstance(write.work, ApplyEpochs):
            taken.append(len(write.work.epochs))
            # A tenth of a second an epoch; from the fifth round on the machine is fast.
            model.write_ms = 100 * taken[-1] if len(taken) < 5 else 1
        attempt.step()
    assert taken[:8] == [1_000, 500, 500, 500, 500, 1_000, 1_000, 1_000]


def test_rounds_that_take_long_however_small_they_are_stay_as_large_as_they_may_be() -> None:
    model = sealed(times=8_000)
    model.write_ms = 200_000
    model.run(CONSUME_ALL)
    works = [work for work in model.works if isinstance(work, ApplyEpochs)]
    assert [len(work.epochs) for work in works] == [1_000, 500, *[1_000] * 6, 500]
