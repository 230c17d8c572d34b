"""What is ordered of a build acts at the next barrier, inside a round and after each retry."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from airflow_backfill.core.attempts.attempt import HEARTBEAT_MS
from airflow_backfill.core.attempts.goals import CatchUpGoal, ConsumeLogGoal, Goal, ResumeGoal
from airflow_backfill.core.attempts.throttle import POLL_MS
from airflow_backfill.core.errors import BackfillError, Cancelled, Interrupted
from airflow_backfill.core.gates.max_lag import MaxLag
from airflow_backfill.core.state import effect as fx
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.core.values.phase import Phase
from airflow_backfill.core.values.round_size import RoundSize
from tests.core.attempts.runs import epochs_applied, files_read
from tests.core.builds import caught_up, planned, sealed, writing
from tests.core.model_target import NO_LAG, PATIENCE, ROUND, Model
from tests.core.tasks import CANCEL, CATCH_UP, CONSUME, FINISH, SNAPSHOT, VERIFY, follow

CONSUME_ALL = ConsumeLogGoal(RoundSize(), NO_LAG, PATIENCE)

# --- commands ---


def test_a_pause_is_acknowledged_at_the_next_barrier_and_no_row_follows() -> None:
    model = planned()
    attempt = writing(model, SNAPSHOT, 3)
    rounds = len(model.rounds) + 1
    number = model.order(Command(Verb.PAUSE))
    attempt.until(fx.SleepUntil)
    assert model.state().control.number == number and len(model.rounds) == rounds
    for _ in range(30):
        attempt.step()
        attempt.until(fx.SleepUntil)
    assert len(model.rounds) == rounds
    model.order(Command(Verb.RESUME))
    attempt.finish()
    assert files_read(model) == Counter(range(6))


def test_a_rate_of_0_lets_no_row_through() -> None:
    model = planned()
    model.order(Command(Verb.THROTTLE, 0))
    attempt = model.start(SNAPSHOT)
    for _ in range(20):
        attempt.until(fx.SleepUntil)
        assert attempt.waits_at.why == "the rate is 0"  # type: ignore[union-attr]
        attempt.step()
    assert not model.rounds


def test_a_paused_attempt_looks_at_the_commands_every_few_seconds_and_renews_its_record() -> None:
    model = planned()
    model.order(Command(Verb.PAUSE))
    attempt, began = model.start(SNAPSHOT), model.now
    attempt.until(fx.SleepUntil)
    while model.now < began + 10 * HEARTBEAT_MS:
        attempt.until(fx.SleepUntil)
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
        attempt.until(fx.SleepUntil)
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
        attempt.until(fx.SleepUntil)
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


@pytest.mark.parametrize("stop", [Command(Verb.PAUSE), Command(Verb.THROTTLE, 0)], ids=["pause", "rate of 0"])
def test_nothing_that_may_read_the_whole_target_begins_while_a_build_is_stopped(stop: Command) -> None:
    model = planned()
    model.run(SNAPSHOT)
    for task, before in ((CONSUME, Phase.SNAPSHOT), (VERIFY, Phase.CATCH_UP)):
        model.order(stop)
        attempt = model.start(task)
        attempt.until(fx.SleepUntil)
        assert attempt.waits_at.why in ("paused", "the rate is 0")  # type: ignore[union-attr]
        assert model.state().phase is before and model.state().certificate is None
        model.order(Command(Verb.RESUME))
        model.order(Command(Verb.THROTTLE))
        attempt.finish()
        model.run(CATCH_UP)


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
        while not attempt.ended and not isinstance(attempt.waits_at, fx.SleepUntil):
            attempt.step()
        model.write()
    assert (model.state().control.paused, model.state().control.held) == (verb is Verb.PAUSE, verb is Verb.HOLD)
    assert model.state().read == model.state().sealed == (verb is Verb.HOLD)
    assert bool(model.rounds) == (verb is Verb.HOLD)


@pytest.mark.parametrize("writes", [1, 2, 3, 5])
def test_after_a_cancel_no_row_is_written(writes: int) -> None:
    model = planned()
    attempt = model.start(SNAPSHOT)
    attempt.until(fx.CommitRecord, nth=writes)
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


@pytest.mark.parametrize("writes", [1, 4], ids=["before the claim", "in the snapshot"])
def test_a_resumed_build_goes_on_where_it_was(writes: int) -> None:
    model = planned()
    attempt = writing(model, SNAPSHOT, writes)
    number = model.order(Command(Verb.CANCEL))
    model.run(CANCEL)
    state = model.run(ResumeGoal(number))
    assert (state.phase, state.control.cancelled) == (Phase.SNAPSHOT, False)
    assert model.run(SNAPSHOT).sealed and files_read(model) == Counter(range(6))
    with pytest.raises(BackfillError):
        attempt.finish()
    assert files_read(model) == Counter(range(6))


# --- inside a round ---

INTERRUPTED = Interrupted("paused")


@pytest.mark.parametrize("landed", [False, True], ids=["interrupted", "landed before"])
def test_a_pause_inside_a_round_is_acknowledged_and_each_file_is_read_once(landed: bool) -> None:
    model = planned()
    attempt = writing(model, SNAPSHOT, 3)
    if landed:
        model.answer(attempt.waits_at)
    number = model.order(Command(Verb.PAUSE))
    attempt.step(fx.CommitOutcome(error=INTERRUPTED))
    assert attempt.until(fx.SleepUntil).why == "paused"
    assert (model.state().control.number, len(model.rounds)) == (number, 1 + landed)
    model.order(Command(Verb.RESUME))
    attempt.finish()
    assert files_read(model) == Counter(range(6))


def test_a_cancel_inside_a_round_ends_the_attempt_without_it() -> None:
    model = planned()
    attempt = writing(model, SNAPSHOT, 3)
    model.order(Command(Verb.CANCEL))
    attempt.step(fx.CommitOutcome(error=Interrupted("cancelled")))
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
        if isinstance(effect, fx.ReadCommands):
            spared[0] = effect.spared
        if isinstance(effect, fx.CommitRecord) and isinstance(effect.work, fx.AppendFiles) and not spared[0]:
            model.order(Command(Verb.PAUSE))
            attempt.step(fx.CommitOutcome(error=INTERRUPTED))
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
    attempt.until(fx.VerifyTarget)
    number = model.order(Command(Verb.PAUSE))
    attempt.step(INTERRUPTED)
    assert attempt.until(fx.SleepUntil, nth=2).why == "paused"
    assert model.state().control.number == number
    model.order(Command(Verb.RESUME))
    assert attempt.finish().certificate is not None


def test_a_cancel_inside_a_verification_ends_it() -> None:
    model = caught_up()
    attempt = model.start(VERIFY)
    attempt.until(fx.VerifyTarget)
    model.order(Command(Verb.CANCEL))
    attempt.step(Interrupted("cancelled"))
    with pytest.raises(Cancelled):
        attempt.finish()


# --- how long rounds take ---


@pytest.mark.slow
def test_rounds_that_take_long_are_halved_and_small_again_when_they_are_short() -> None:
    model = sealed(times=8_000)
    attempt, taken = model.start(CONSUME_ALL), []
    while not attempt.ended:
        write = attempt.waits_at
        if isinstance(write, fx.CommitRecord) and isinstance(write.work, fx.ApplyEpochs):
            taken.append(len(write.work.epochs))
            # A tenth of a second an epoch; from the fifth round on the machine is fast.
            model.write_ms = 100 * taken[-1] if len(taken) < 5 else 1
        attempt.step()
    assert taken[:8] == [1_000, 500, 500, 500, 500, 1_000, 1_000, 1_000]


@pytest.mark.slow
def test_rounds_that_take_long_however_small_they_are_stay_as_large_as_they_may_be() -> None:
    model = sealed(times=8_000)
    model.write_ms = 200_000
    model.run(CONSUME_ALL)
    works = [work for work in model.works if isinstance(work, fx.ApplyEpochs)]
    assert [len(work.epochs) for work in works] == [1_000, 500, *[1_000] * 6, 500]
