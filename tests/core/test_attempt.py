from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_backfill.core.attempt import BACK_OFF, CONTENTION_LIMIT, HEARTBEAT, POLL, Attempt
from airflow_backfill.core.control import Command, Verb
from airflow_backfill.core.effect import AppendFiles, ApplyEpochs, FileSize, Head, Look, Pause, Watch, Write, Written
from airflow_backfill.core.errors import (
    ApplicationFailed,
    BackfillError,
    Cancelled,
    Fenced,
    HistoryLost,
    NotConverging,
    SourceReplaced,
    TargetContended,
)
from airflow_backfill.core.gate import MaxLag
from airflow_backfill.core.lag import Bound
from airflow_backfill.core.phase import Event, Phase
from airflow_backfill.core.position import AtFile, Consumed, InEpoch
from airflow_backfill.core.snapshot_round import RoundSize
from airflow_backfill.core.task import (
    CancelTask,
    CatchUpTask,
    ConsumeLogTask,
    FinishTask,
    ResumeTask,
    SnapshotTask,
    Task,
    UpstreamTask,
    VerifyTask,
)
from tests.core.model import NO_LAG, PATIENCE, ROUND, Model, Running

ONE_FILE = RoundSize(1, 10**9)
SNAPSHOT = SnapshotTask(0, 1, ONE_FILE)
CONSUME = ConsumeLogTask(ROUND, NO_LAG, PATIENCE)
CATCH_UP = CatchUpTask(ROUND, NO_LAG, PATIENCE)
V = 7


def planned(files: int = 6, lanes: int = 1, **fields: Any) -> Model:
    model = Model([FileSize(100, 10)] * files, **fields)
    model.plan(lanes=lanes)
    return model


def events(model: Model) -> list[str]:
    return [record.event.value for record in model.records()]


def files_read(model: Model) -> Counter[int]:
    """How often each file is in the target."""
    works = [work for work in model.works if isinstance(work, AppendFiles)]
    return Counter(n for work in works for first, stop in work.runs for n in range(first, stop))


def epochs_applied(model: Model) -> Counter[int]:
    """How often each epoch is in the target."""
    works = [work for work in model.works if isinstance(work, ApplyEpochs)]
    return Counter(e for work in works for e in range(work.epochs.start, work.epochs.stop) if work.bucket == 0)


# --- claims and read-back ---


def test_an_attempt_begins_with_a_claim_that_holds_no_rows() -> None:
    model = planned()
    attempt = model.start(SNAPSHOT)
    first = attempt.until(Write)
    assert (first.record.event, first.record.seq, first.record.generation) == (Event.CLAIM, 1, 1)
    assert not model.rounds


def test_no_round_begins_before_the_last_one_was_read_back() -> None:
    model = planned()
    model.run(SNAPSHOT)
    kinds = [type(effect) for effect in model.effects]
    for n, kind in enumerate(kinds):
        if kind is Write:
            assert kinds[n + 1] is Head


def test_a_task_that_is_done_claims_and_writes_nothing() -> None:
    model = Model()
    model.write()
    model.finished()
    head, certificate = model.target.head, model.state().certificate
    for task in (SNAPSHOT, CONSUME, CATCH_UP, VerifyTask(), FinishTask(), FinishTask(verified=False)):
        assert model.run(task).certificate == certificate
    assert model.target.head == head


def test_a_commit_that_landed_though_its_answer_was_lost_counts() -> None:
    model = planned()
    attempt = model.start(SNAPSHOT)
    while not attempt.ended:
        if isinstance(attempt.waits_at, Write):
            model.answer(attempt.waits_at)
            attempt.step(Written(error=ApplicationFailed("the answer was lost")))
        else:
            attempt.step()
    assert attempt.error is None
    assert files_read(model) == Counter(range(6))


def test_a_commit_that_did_not_land_changes_nothing_and_the_retry_does_it_again() -> None:
    model = planned()
    attempt = model.start(SNAPSHOT)
    attempt.until(Write, nth=3)
    before = model.state()
    attempt.step(Written(error=ApplicationFailed("the request was lost")))
    with pytest.raises(ApplicationFailed):
        attempt.finish()
    assert model.state() == before
    assert model.run(SNAPSHOT).sealed
    assert files_read(model) == Counter(range(6))


def test_a_rival_that_took_the_sequence_number_fences() -> None:
    """Delta skips the second write of a number without a word: only the read-back tells."""
    model = planned()
    older, newer = model.attempt(), model.attempt()
    attempt = model.start(SNAPSHOT, older)
    attempt.until(Write, nth=2)
    model.start(SNAPSHOT, newer).until(Write, nth=2)
    head = model.target.head
    with pytest.raises(Fenced) as raised:
        attempt.finish()
    assert raised.value.data["by"] == newer.name
    assert model.target.head == head
    assert not model.rounds


def test_the_newest_attempt_wins_and_the_others_write_nothing_more() -> None:
    model = planned()
    attempts = [model.attempt() for _ in range(4)]
    running = [model.start(SNAPSHOT, me) for me in attempts]
    for one in running:
        one.until(Write)
    results = []
    for one in running:
        try:
            results.append(one.finish().sealed)
        except Fenced:
            results.append(False)
    assert results[-1]
    assert files_read(model) == Counter(range(6))


def test_an_older_attempt_that_wakes_up_after_a_newer_one_writes_nothing() -> None:
    model = planned()
    older, newer = model.attempt(), model.attempt()
    model.start(SNAPSHOT, newer).until(Write, nth=3)
    head = model.target.head
    with pytest.raises(Fenced):
        model.run(SNAPSHOT, older)
    assert model.target.head == head


def test_a_zombie_spoils_no_more_than_the_round_that_it_was_in() -> None:
    model = planned()
    zombie = model.start(SNAPSHOT)
    zombie.until(Write, nth=3)
    assert model.run(SNAPSHOT).sealed
    with pytest.raises(Fenced):
        zombie.finish()
    assert files_read(model) == Counter(range(6))


def test_maintenance_that_keeps_winning_ends_with_a_name_after_growing_pauses() -> None:
    model = planned()
    attempt, waits = model.start(SNAPSHOT), []
    attempt.until(Write, nth=2)
    for _ in range(CONTENTION_LIMIT):
        attempt.until(Write)
        model.foreign("OPTIMIZE", data_change=False)
        attempt.step(Written(conflict="ConcurrentAppend"))
        attempt.until(Pause)
        waits.append(attempt.waits_at.until - model.now)  # type: ignore[union-attr]
        attempt.step()
    with pytest.raises(TargetContended) as raised:
        attempt.finish()
    assert raised.value.retry
    assert waits[0] >= BACK_OFF
    assert waits == sorted(set(waits))
    assert not model.rounds


def test_a_round_that_lands_forgets_the_lost_ones() -> None:
    model = planned(files=3)
    attempt = model.start(SNAPSHOT)
    for _ in range(3):
        for _ in range(CONTENTION_LIMIT - 1):
            attempt.until(Write)
            model.foreign("OPTIMIZE", data_change=False)
            attempt.step(Written(conflict="ConcurrentAppend"))
        attempt.until(Write)
        attempt.step()
    attempt.finish()
    assert files_read(model) == Counter(range(3))


# --- killed anywhere ---


def killed_everywhere(make: Callable[[], Model], tasks: list[Task]) -> None:
    """A build by attempts that are killed at the nth effect, for every n there is, and retried to the end."""
    whole = make()
    for task in tasks:
        whole.run(task)
    expected = whole.state()
    effects = len(whole.effects)
    for n in range(effects):
        model = make()
        left = n
        for task in tasks:
            attempt = model.start(task)
            while not attempt.ended and left:
                attempt.step()
                left -= 1
            if not attempt.ended:
                model.run(task)
                left = effects
            elif attempt.error is not None:
                raise attempt.error
        state = model.state()
        assert (state.phase, state.positions, state.totals) == (expected.phase, expected.positions, expected.totals)
        assert set(files_read(model).values()) <= {1}
        assert set(epochs_applied(model).values()) <= {1}


def test_a_snapshot_that_was_killed_at_any_effect_reads_every_file_once() -> None:
    killed_everywhere(lambda: planned(), [SNAPSHOT])


def test_a_log_that_was_killed_at_any_effect_holds_every_epoch_once() -> None:
    def make() -> Model:
        model = Model()
        model.sealed()
        for rows in (3, 0, 9, 1):
            model.write(rows) if rows else model.optimize()
        model.effects.clear()
        return model

    small = RoundSize(10**9, 4)
    killed_everywhere(make, [ConsumeLogTask(small, NO_LAG, PATIENCE)])


def test_a_hand_off_that_was_killed_at_any_effect_is_committed_once() -> None:
    def make() -> Model:
        model = Model()
        model.sealed()
        model.write(times=3)
        model.effects.clear()
        return model

    killed_everywhere(make, [CATCH_UP, VerifyTask(), FinishTask()])
    model = make()
    for task in (CATCH_UP, VerifyTask(), FinishTask(), FinishTask()):
        model.run(task)
    assert events(model).count("finish") == events(model).count("pin") == 1


def test_a_read_that_fails_at_the_first_chunk_leaves_a_plan_that_can_be_resumed() -> None:
    model = planned()
    attempt = model.start(SNAPSHOT)
    attempt.until(Write, nth=2)
    attempt.step(Written(error=ApplicationFailed("the read failed")))
    with pytest.raises(ApplicationFailed):
        attempt.finish()
    assert (model.state().phase, model.state().positions) == (Phase.SNAPSHOT, (AtFile(0),) * 3)
    assert model.run(SNAPSHOT).sealed


# --- the pinned epoch ---


def test_the_pinned_epoch_stays_whatever_the_source_does_meanwhile() -> None:
    model = planned()
    model.write(times=3)
    attempt = model.start(SNAPSHOT)
    attempt.until(Write, nth=3)
    model.write(times=2)
    model.run(SNAPSHOT)
    state = model.run(ConsumeLogTask(ROUND, MaxLag(epochs=9), PATIENCE))
    assert state.applied == state.plan.source.epoch == V
    assert model.run(CONSUME).applied == V + 5
    assert epochs_applied(model) == Counter(range(V + 1, V + 6))


@pytest.mark.parametrize("files", [0, 1, 2, 6])
@pytest.mark.parametrize("rate", [None, 5])
def test_the_snapshot_is_sealed_exactly_once(files: int, rate: int | None) -> None:
    """Also when the last file fills the last round, and when the throttle holds it back."""
    model = planned(files, splits=2)
    if rate is not None:
        model.order(Command(Verb.THROTTLE, rate))
    model.run(SnapshotTask(0, 1, RoundSize(200, 10**9)))
    sealed = model.run(ConsumeLogTask(ROUND, NO_LAG, PATIENCE))
    assert events(model).count("seal") == 1
    assert sealed.applied == V
    assert files_read(model) == Counter(range(files))


def test_ten_thousand_commits_meanwhile_are_counted_and_not_read() -> None:
    model = planned(files=3)
    model.write(rows=2, times=10_000)
    state = model.run(SNAPSHOT)
    assert state.newest is not None and state.newest.record.pending is not None
    assert (state.newest.record.pending.epochs, state.newest.record.pending.rows) == (10_000, 20_000)
    assert not epochs_applied(model)


# --- what is wrong with the source ---


def test_a_log_that_was_cleaned_up_past_the_next_epoch_stops_the_snapshot_at_its_next_round() -> None:
    model = planned()
    model.write(times=3)
    attempt = model.start(SNAPSHOT)
    attempt.until(Write, nth=3)
    model.source.earliest = V + 2
    with pytest.raises(HistoryLost, match=f"epoch {V + 1}"):
        attempt.finish()
    assert len(model.rounds) == 2


def test_a_source_that_was_replaced_during_a_round_gets_no_more_than_that_round() -> None:
    model = planned()
    attempt = model.start(SNAPSHOT)
    attempt.until(Write, nth=3)
    model.alter(table_id="source-2")
    with pytest.raises(SourceReplaced):
        attempt.finish()
    assert len(model.rounds) == 2
    with pytest.raises(SourceReplaced):
        model.run(SNAPSHOT)
    assert len(model.rounds) == 2


def test_a_source_whose_history_went_back_behind_the_applied_epoch_stops() -> None:
    model = Model()
    model.sealed()
    model.write(times=2)
    model.run(CONSUME)
    model.source.commits = model.source.commits[:-1]
    with pytest.raises(SourceReplaced, match="9 was already applied"):
        model.run(CATCH_UP)


def test_a_silent_source_is_no_end_of_anything() -> None:
    model = Model()
    assert model.finished().handoff == V
    head = model.target.head
    state = model.run(UpstreamTask(ROUND, upto=V))
    assert state.applied == V
    assert events(model)[-1] == "claim"
    assert model.target.head == head + 1


# --- commands ---


def test_a_pause_is_acknowledged_at_the_next_barrier_and_no_row_follows() -> None:
    model = planned()
    attempt = model.start(SNAPSHOT)
    attempt.until(Write, nth=3)
    rounds = len(model.rounds) + 1
    number = model.order(Command(Verb.PAUSE))
    attempt.until(Pause)
    assert model.state().control.number == number
    assert len(model.rounds) == rounds
    for _ in range(30):
        attempt.step()
        attempt.until(Pause)
    assert len(model.rounds) == rounds
    model.order(Command(Verb.RESUME))
    attempt.finish()
    assert files_read(model) == Counter(range(6))


def test_a_rate_of_0_lets_no_row_through() -> None:
    model = planned()
    model.order(Command(Verb.THROTTLE, 0))
    attempt = model.start(SNAPSHOT)
    for _ in range(20):
        attempt.until(Pause)
        assert attempt.waits_at.why == "the rate is 0"  # type: ignore[union-attr]
        attempt.step()
    assert not model.rounds


def test_a_paused_attempt_looks_at_the_commands_every_few_seconds_and_renews_its_record() -> None:
    model = planned()
    model.order(Command(Verb.PAUSE))
    attempt, began = model.start(SNAPSHOT), model.now
    attempt.until(Pause)
    while model.now < began + 10 * HEARTBEAT:
        attempt.until(Pause)
        assert attempt.waits_at.until - model.now <= POLL  # type: ignore[union-attr]
        attempt.step()
        if model.now == began + 3 * HEARTBEAT:
            model.write(times=4)
    seen = [record.pending for record in model.records() if record.pending is not None]
    assert [p.at for p in seen] == sorted(p.at for p in seen)
    assert max(b.at - a.at for a, b in pairwise(seen)) <= HEARTBEAT + POLL
    assert (seen[0].epochs, seen[-1].epochs) == (0, 4)


def test_commands_act_in_every_phase_that_moves_rows() -> None:
    model = Model()
    model.sealed()
    model.write(rows=5, times=2)
    for task in (CONSUME, CATCH_UP):
        model.order(Command(Verb.PAUSE))
        attempt = model.start(task)
        attempt.until(Pause)
        assert attempt.waits_at.why == "paused"  # type: ignore[union-attr]
    assert not epochs_applied(model)
    model.order(Command(Verb.RESUME))
    model.run(CONSUME)
    assert epochs_applied(model) == Counter((8, 9))


def test_a_hold_stops_no_row() -> None:
    model = planned()
    model.order(Command(Verb.HOLD))
    state = model.run(SNAPSHOT)
    assert state.sealed
    assert state.control.held


@pytest.mark.parametrize("writes", [1, 2, 3, 5])
def test_after_a_cancel_no_row_is_written(writes: int) -> None:
    model = planned()
    attempt = model.start(SNAPSHOT)
    attempt.until(Write, nth=writes)
    model.order(Command(Verb.CANCEL))
    with pytest.raises(Cancelled):
        attempt.finish()
    rounds = len(model.rounds)
    assert rounds == writes - 1 if writes > 1 else rounds == 0
    assert model.run(CancelTask()).phase is Phase.CANCELLED
    for task in (SNAPSHOT, CONSUME, CATCH_UP, VerifyTask(), FinishTask(), UpstreamTask(ROUND, upto=9)):
        with pytest.raises(Cancelled):
            model.run(task)
    assert len(model.rounds) == rounds


def test_a_resumed_build_goes_on_where_it_was() -> None:
    model = planned()
    attempt = model.start(SNAPSHOT)
    attempt.until(Write, nth=4)
    number = model.order(Command(Verb.CANCEL))
    model.run(CancelTask())
    state = model.run(ResumeTask(number))
    assert (state.phase, state.control.cancelled) == (Phase.SNAPSHOT, False)
    model.run(SNAPSHOT)
    assert files_read(model) == Counter(range(6))
    with pytest.raises(BackfillError):
        attempt.finish()
    assert files_read(model) == Counter(range(6))


def test_an_old_cancel_does_not_come_back_after_a_resume() -> None:
    model = planned()
    number = model.order(Command(Verb.CANCEL))
    model.run(CancelTask())
    model.run(ResumeTask(number))
    assert model.run(SNAPSHOT).sealed


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
        elif isinstance(attempt.waits_at, Pause):
            wakes[n] = max(model.now, attempt.waits_at.until)
            attempt.step(Written())
        else:
            attempt.step()


@pytest.mark.parametrize(("rate", "unit", "write_ms"), [(100, 10, 0), (100, 700, 900), (7, 1, 300), (50, 3_000, 0)])
def test_the_rate_is_kept_in_every_window_and_used_up(rate: int, unit: int, write_ms: int) -> None:
    model = Model([FileSize(1, unit)] * (rate * 5_000 // unit), splits=8)
    model.plan()
    model.write_ms = write_ms
    model.order(Command(Verb.THROTTLE, rate))
    an_hour(model, [model.start(SnapshotTask(0, 1, RoundSize(10**9, 10**6)))])
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
        attempt, done = model.start(SnapshotTask(0, 1, ONE_FILE)), len(model.rounds)
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
    an_hour(model, [model.start(SnapshotTask(lane, lanes, size)) for lane in range(lanes)])
    largest = max(rows for _, rows in model.rounds)
    for window in (10_000, 60_000, HOUR):
        assert heaviest(model.rounds, window) <= rate * window // 1000 + lanes * largest
    assert sum(rows for _, rows in model.rounds) >= 0.9 * rate * HOUR // 1000


def test_the_last_lane_with_work_gets_the_whole_rate() -> None:
    rate = 100
    model = Model([FileSize(1, 20)] * 4_000, splits=3)
    model.plan(lanes=2)
    model.order(Command(Verb.THROTTLE, rate))
    first = SnapshotTask(1, 2, RoundSize(10**9, 10**6))
    model.run(first)
    model.rounds.clear()
    an_hour(model, [model.start(SnapshotTask(0, 2, RoundSize(10**9, 10**6)))])
    began = model.rounds[0][0]
    some = [r for r in model.rounds if began + 60_000 <= r[0] < began + 360_000]
    assert sum(rows for _, rows in some) >= 0.9 * rate * 300


def test_a_throttle_that_is_lifted_holds_nothing_back_any_more() -> None:
    model = planned(files=40)
    model.order(Command(Verb.THROTTLE, 1))
    attempt = model.start(SNAPSHOT)
    attempt.until(Pause, nth=3)
    began = model.now
    model.order(Command(Verb.THROTTLE, None))
    attempt.finish()
    assert model.now - began <= POLL
    assert files_read(model) == Counter(range(40))


def test_a_throttled_attempt_still_acknowledges_and_watches() -> None:
    model = planned(files=100)
    model.order(Command(Verb.THROTTLE, 1))
    attempt, began = model.start(SNAPSHOT), model.now
    for minute in range(10):
        while model.now < began + minute * 60_000:
            attempt.until(Pause)
            attempt.step()
        model.write()
    pending = [record.pending for record in model.records() if record.pending is not None]
    assert pending[-1].head >= V + 8
    assert max(b.at - a.at for a, b in pairwise(pending)) <= HEARTBEAT + POLL
    number = model.order(Command(Verb.HOLD))
    attempt.until(Write)
    attempt.until(Pause)
    assert model.state().control.number == number


@pytest.mark.parametrize("rows", [10, 200])
def test_the_throttle_holds_in_the_log_too_and_is_named_when_it_cannot_contract(rows: int) -> None:
    """Also when the rounds are so far apart that the record has to be renewed between them."""
    model = Model()
    model.sealed()
    model.rounds.clear()
    model.write(rows=rows, times=20)
    model.order(Command(Verb.THROTTLE, 1))
    attempt = model.start(ConsumeLogTask(RoundSize(10**9, rows), NO_LAG, PATIENCE))
    with pytest.raises(NotConverging, match="throttle"):
        while not attempt.ended:
            if isinstance(attempt.waits_at, Write) and attempt.waits_at.record.event is Event.EPOCHS:
                model.write(rows=rows, times=2)
            attempt.step()
        attempt.finish()
    assert heaviest(model.rounds, 10_000) <= 10 + rows
    assert ("mark" in events(model)) == (rows == 200)


# --- converging ---


def consumed(arrivals: int, capacity: int, *, pending: int, max_lag: int) -> Model:
    """A log to which ``arrivals`` epochs come during each round, of which a round takes ``capacity``."""
    model = Model()
    model.sealed()
    model.write(rows=1, times=pending)
    attempt = model.start(ConsumeLogTask(RoundSize(10**9, capacity), MaxLag(epochs=max_lag), PATIENCE))
    for _ in range(1_000):
        attempt.until(Write) if not attempt.ended else attempt.finish()
        if attempt.waits_at.record.event is Event.EPOCHS:  # type: ignore[union-attr]
            model.write(rows=1, times=arrivals)
        attempt.step()
        while not attempt.ended and not isinstance(attempt.waits_at, Write):
            attempt.step()
        if attempt.ended:
            attempt.finish()
            return model
    raise AssertionError("a thousand rounds and no end")


@given(st.integers(0, 6), st.integers(1, 8), st.integers(0, 60))
def test_the_log_ends_if_rounds_take_more_than_arrives_and_is_named_if_not(
    arrivals: int, capacity: int, pending: int
) -> None:
    """Whatever was pending when the bound was fixed: here nothing, and all of it came while nobody worked."""
    if arrivals < capacity or pending <= arrivals:
        state = consumed(arrivals, capacity, pending=pending, max_lag=arrivals).state()
        assert state.applied is not None and state.applied >= V + pending - arrivals
    else:
        with pytest.raises(NotConverging) as raised:
            consumed(arrivals, capacity, pending=pending, max_lag=arrivals)
        assert raised.value.data["rounds"] == PATIENCE
        assert raised.value.data["start"] == 0


def test_rounds_that_take_everything_and_never_come_within_the_lag_are_named() -> None:
    """Nothing is left behind by any round, and yet the target stays forty epochs behind for ever."""
    with pytest.raises(NotConverging) as raised:
        consumed(40, 10**6, pending=100, max_lag=10)
    assert raised.value.data["pending"] == 40


def test_a_build_that_is_kept_fresh_for_days_is_not_taken_for_one_that_does_not_converge() -> None:
    """The gate stays closed, each attempt works off what came since the last and ends within the bound."""
    model = Model()
    model.sealed()
    for _ in range(100):
        model.write(rows=1, times=8)
        attempt = model.start(ConsumeLogTask(RoundSize(10**9, 2), MaxLag(epochs=3), PATIENCE))
        while not attempt.ended:
            if isinstance(attempt.waits_at, Write) and attempt.waits_at.record.event is Event.EPOCHS:
                model.write(rows=1)
            attempt.step()
        assert attempt.error is None


def test_a_hundred_pending_and_one_arrival_a_round_end_as_not_converging() -> None:
    with pytest.raises(NotConverging):
        consumed(1, 1, pending=100, max_lag=0)


def test_the_bounds_start_is_what_was_pending_at_the_seal_whatever_comes_later() -> None:
    model = planned()
    model.write(times=5)
    model.run(SNAPSHOT)
    attempt = model.start(ConsumeLogTask(RoundSize(10**9, 1), NO_LAG, PATIENCE))
    while "seal" not in events(model):
        attempt.step()
    model.write(times=30)
    assert model.state().bound == Bound(5, 5)
    again = model.start(ConsumeLogTask(RoundSize(10**9, 1), NO_LAG, PATIENCE))
    again.until(Write, nth=2)
    assert again.waits_at.record.bound == Bound(5, 5, least=35)  # type: ignore[union-attr]


def test_a_log_with_nothing_pending_takes_no_round() -> None:
    model = planned()
    model.run(SNAPSHOT)
    rounds = len(model.rounds)
    state = model.run(CONSUME)
    assert (state.phase, state.applied, len(model.rounds)) == (Phase.CONSUME_LOG, V, rounds)
    assert "epochs" not in events(model)


# --- hand-off ---


@pytest.mark.parametrize("later", [0, 1, 5])
@pytest.mark.parametrize("during", [0, 1, 3])
def test_each_epoch_is_applied_once_across_the_hand_off(later: int, during: int) -> None:
    model = Model()
    model.sealed()
    model.write(times=2)
    attempt = model.start(CATCH_UP)
    attempt.until(Write, nth=2)
    model.write(times=during)
    handoff = attempt.finish().handoff
    assert handoff is not None
    model.write(times=later)
    model.run(VerifyTask())
    assert model.run(FinishTask()).applied == handoff
    state = model.run(UpstreamTask(ROUND, upto=model.source.head))
    assert state.applied == model.source.head
    assert epochs_applied(model) == Counter(range(V + 1, model.source.head + 1))
    assert state.phase is (Phase.UPSTREAM if model.source.head > handoff else Phase.FINISHED)


def test_the_finish_needs_no_later_version_of_the_source() -> None:
    model = Model()
    state = model.finished()
    assert (state.handoff, state.applied, model.source.head) == (V, V, V)
    assert state.certificate is not None
    assert state.certificate.target_version < model.target.head


def test_versions_without_rows_advance_the_follower() -> None:
    model = Model()
    model.finished()
    for n in range(10):
        model.write() if n % 3 == 0 else model.optimize()
    assert model.run(UpstreamTask(ROUND, upto=model.source.head)).applied == V + 10


def test_a_follower_that_was_restarted_knows_its_epoch() -> None:
    model = Model()
    model.finished()
    model.write(times=2)
    model.run(UpstreamTask(ROUND, upto=V + 2))
    model.write(times=2)
    model.run(UpstreamTask(ROUND, upto=V + 4))
    assert epochs_applied(model) == Counter(range(V + 1, V + 5))
    assert model.state().totals.upstream_epochs == 4


def test_a_follower_runs_until_its_time_and_wakes_up_for_new_epochs() -> None:
    model = Model()
    model.finished()
    end = model.now + 120_000
    attempt = model.start(UpstreamTask(ROUND, until=end))
    while not attempt.ended:
        if isinstance(attempt.waits_at, Pause) and model.source.head < V + 5:
            model.write()
        attempt.step()
    assert attempt.error is None
    assert end <= model.now <= end + POLL
    assert model.state().applied == V + 5


# --- lanes ---


def test_files_that_two_lanes_left_half_read_go_to_three() -> None:
    model = planned(files=30, splits=5, lanes=2)
    for lane in (0, 1):
        model.start(SnapshotTask(lane, 2, ONE_FILE)).until(Write, nth=5)
    half = sum(files_read(model).values())
    assert 0 < half < 30
    running = [model.start(SnapshotTask(lane, 3, ONE_FILE)) for lane in range(3)]
    while any(not one.ended for one in running):
        for one in running:
            if not one.ended:
                one.step()
    assert [one.error for one in running] == [None] * 3
    assert files_read(model) == Counter(range(30))
    assert model.state().layout.lanes == 3


def test_lanes_of_a_layout_that_was_closed_write_nothing_more() -> None:
    model = planned(files=30, splits=5, lanes=2)
    old = [model.start(SnapshotTask(lane, 2, ONE_FILE)) for lane in (0, 1)]
    for one in old:
        one.until(Write, nth=5)
    model.run(SnapshotTask(0, 1, ONE_FILE))
    rounds = len(model.rounds)
    for one in old:
        with pytest.raises(Fenced):
            one.finish()
    assert len(model.rounds) == rounds
    assert files_read(model) == Counter(range(30))


def test_lanes_cannot_change_while_the_log_is_consumed() -> None:
    """The snapshot is over, whoever asks for how many lanes: nothing is closed, claimed or written."""
    model = Model()
    model.sealed(lanes=1)
    model.write(times=3)
    head = model.target.head
    for lane in range(4):
        assert model.run(SnapshotTask(lane, 4, ONE_FILE)).layout.lanes == 1
    assert model.target.head == head
    assert model.run(CONSUME).applied == V + 3


def test_all_lanes_close_before_the_log_is_consumed() -> None:
    model = planned(lanes=3, splits=3)
    for lane in range(3):
        model.run(SnapshotTask(lane, 3, ONE_FILE))
    state = model.run(CONSUME)
    assert (state.layout.number, state.layout.lanes) == (2, 1)
    assert events(model)[-5:] == ["close", "close", "close", "claim", "seal"]


# --- an epoch in part ---


def test_an_epoch_that_was_killed_between_its_parts_is_finished_by_the_next_attempt_with_any_round_size() -> None:
    model = Model()
    model.sealed()
    model.write(rows=10)
    attempt = model.start(ConsumeLogTask(RoundSize(10**9, 4), NO_LAG, PATIENCE))
    attempt.until(Write, nth=3)
    state = model.state()
    assert (state.positions[0], state.applied) == (InEpoch(8, 1, 3), V)
    state = model.run(CatchUpTask(RoundSize(10**9, 2), NO_LAG, PATIENCE))
    assert state.positions[0] == Consumed(8)
    assert [(w.bucket, w.of) for w in model.works if isinstance(w, ApplyEpochs)] == [(0, 3), (1, 3), (2, 3)]
    assert state.totals.log_epochs == 1


def test_nothing_is_handed_off_between_the_parts_of_an_epoch() -> None:
    model = Model()
    model.sealed()
    model.write(rows=10)
    attempt = model.start(ConsumeLogTask(RoundSize(10**9, 4), NO_LAG, PATIENCE))
    attempt.until(Write, nth=3)
    model.run(CatchUpTask(ROUND, MaxLag(epochs=9), PATIENCE))
    pins = [r for r in model.records() if r.event is Event.PIN]
    assert [pin.positions[0] for pin in pins] == [Consumed(8)]


# --- what an attempt looks at ---


def test_files_are_listed_for_the_snapshot_only_and_the_source_watched_from_where_the_build_stands() -> None:
    model = Model()
    model.write(times=2)
    model.finished()
    listed = [e.files for e in model.effects if isinstance(e, Look)]
    assert listed[0]
    assert not listed[-1]
    watched = [e.after for e in model.effects if isinstance(e, Watch)]
    assert watched == sorted(watched)
    assert set(watched) == {V, V + 2}


def test_attempts_are_told_apart_by_name_even_with_one_number() -> None:
    """After a lost control folder two attempts may have drawn one generation."""
    model = planned()
    model.start(SNAPSHOT, Attempt(5, "one")).until(Write, nth=3)
    with pytest.raises(Fenced):
        model.run(SNAPSHOT, Attempt(5, "two"))
