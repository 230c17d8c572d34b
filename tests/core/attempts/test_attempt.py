"""What an attempt writes, and what becomes of it if it is killed or has a rival."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import pytest

from airflow_backfill.core.attempts.attempt import BACK_OFF_MS, CONTENTION_LIMIT
from airflow_backfill.core.attempts.goals import ConsumeLogGoal, FinishGoal, Goal, TakeOverGoal
from airflow_backfill.core.errors import (
    ApplicationFailed,
    BackfillError,
    ExecutorLost,
    Fenced,
    HistoryLost,
    NotPlanned,
    SourceReplaced,
    SourceUnavailable,
    TargetContended,
    TargetDiverged,
    VerificationFailed,
)
from airflow_backfill.core.splits.files import AtFile
from airflow_backfill.core.state import effect as fx
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.phase import Event, Phase
from airflow_backfill.core.values.round_size import RoundSize
from tests.core.attempts.runs import epochs_applied, events, files_read
from tests.core.builds import caught_up, finished, planned, sealed, writing
from tests.core.model_target import NO_LAG, PATIENCE, Model
from tests.core.tasks import CATCH_UP, CONSUME, FINISH, SNAPSHOT, VERIFY, V, follow

# --- claims and read-back ---


def test_an_attempt_begins_with_a_claim_that_holds_no_rows() -> None:
    model = planned()
    attempt = model.start(SNAPSHOT)
    first = attempt.until(fx.CommitRecord)
    assert (first.record.event, first.record.seq, first.record.generation) == (Event.CLAIM, 1, 1)
    assert not model.rounds


def test_no_round_begins_before_the_last_one_was_read_back() -> None:
    model = planned()
    model.run(SNAPSHOT)
    kinds = [type(effect) for effect in model.effects]
    for n, kind in enumerate(kinds):
        if kind is fx.CommitRecord:
            assert kinds[n + 1] is fx.ReadHead


@pytest.mark.parametrize("left_over", [False, True])
def test_nothing_is_read_before_a_plan_is_committed(left_over: bool) -> None:
    """A copy of a plan that lies beside the target is none."""
    model = Model()
    model.stored_plan = model.draft() if left_over else None
    for task in (SNAPSHOT, CONSUME, CATCH_UP, VERIFY, FINISH):
        with pytest.raises(NotPlanned):
            model.run(task)
    assert model.target.head == 0
    assert {type(effect) for effect in model.effects} == {fx.ReadHead, fx.ReadCommit}


def test_a_task_that_is_done_claims_and_writes_nothing() -> None:
    model = Model()
    model.write()
    model.finished()
    head, certificate = model.target.head, model.state().certificate
    for task in (SNAPSHOT, CONSUME, CATCH_UP, VERIFY, FINISH, FinishGoal(verified=False)):
        assert model.run(task).certificate == certificate
    assert model.target.head == head


def test_a_commit_that_landed_though_its_answer_was_lost_counts() -> None:
    model = planned()
    attempt = model.start(SNAPSHOT)
    while not attempt.ended:
        if isinstance(attempt.waits_at, fx.CommitRecord):
            model.answer(attempt.waits_at)
            attempt.step(fx.CommitOutcome(error=ApplicationFailed("the answer was lost")))
        else:
            attempt.step()
    assert attempt.error is None
    assert files_read(model) == Counter(range(6))


@pytest.mark.parametrize("writes", [2, 3], ids=["the first round", "the second"])
def test_a_commit_that_did_not_land_changes_nothing_and_the_retry_does_it_again(writes: int) -> None:
    model = planned()
    attempt = writing(model, SNAPSHOT, writes)
    before = model.state()
    attempt.step(fx.CommitOutcome(error=ApplicationFailed("the request was lost")))
    with pytest.raises(ApplicationFailed):
        attempt.finish()
    assert model.state() == before
    assert (before.phase, before.positions[1:]) == (Phase.SNAPSHOT, (AtFile(0),) * 2)
    assert before.positions[0] == AtFile(writes - 2)
    assert model.run(SNAPSHOT).sealed
    assert files_read(model) == Counter(range(6))


def test_a_round_whose_executor_ended_is_repeated_by_the_same_attempt() -> None:
    model, failed = planned(), 0
    attempt = model.start(SNAPSHOT)
    while not attempt.ended:
        if isinstance(attempt.waits_at, fx.CommitRecord) and attempt.waits_at.record.seq == 2 and failed < 3:
            failed += 1
            attempt.step(fx.CommitOutcome(error=ExecutorLost("the rows that it held are gone")))
        else:
            attempt.step()
    assert attempt.error is None and failed == 3
    assert files_read(model) == Counter(range(6))


def test_an_attempt_whose_executors_end_again_and_again_ends() -> None:
    model = planned()
    attempt, begun = model.start(SNAPSHOT), model.now
    while not attempt.ended:
        writes = isinstance(attempt.waits_at, fx.CommitRecord) and not isinstance(attempt.waits_at.work, fx.Nothing)
        attempt.step(fx.CommitOutcome(error=ExecutorLost("gone")) if writes else None)
    assert isinstance(attempt.error, ExecutorLost) and attempt.error.retry
    assert model.now - begun <= 90_000
    assert model.run(SNAPSHOT).sealed


def test_a_rival_that_took_the_sequence_number_fences() -> None:
    """Delta skips the second write of a number without a word: only the read-back tells."""
    model = planned()
    older, newer = model.attempt(), model.attempt()
    attempt = writing(model, SNAPSHOT, 2, me=older)
    writing(model, SNAPSHOT, 2, me=newer)
    head = model.target.head
    with pytest.raises(Fenced) as raised:
        attempt.finish()
    assert raised.value.data["by"] == newer.name
    assert model.target.head == head and not model.rounds


def test_an_older_attempt_that_wakes_up_after_a_newer_one_writes_nothing() -> None:
    model = planned()
    older, newer = model.attempt(), model.attempt()
    writing(model, SNAPSHOT, 3, me=newer)
    head = model.target.head
    with pytest.raises(Fenced):
        model.run(SNAPSHOT, older)
    assert model.target.head == head


def test_the_newest_attempt_wins_and_the_others_write_nothing_more() -> None:
    model = planned()
    attempts = [model.attempt() for _ in range(4)]
    running = [model.start(SNAPSHOT, me) for me in attempts]
    for one in running:
        one.until(fx.CommitRecord)
    results = []
    for one in running:
        try:
            results.append(one.finish().sealed)
        except Fenced:
            results.append(False)
    assert results[-1]
    assert files_read(model) == Counter(range(6))


@pytest.mark.parametrize("followed", [False, True])
def test_a_follower_is_fenced_by_whoever_takes_over_to_drop_the_build(followed: bool) -> None:
    model = finished(times=2)
    follower = model.start(follow(V + 2))
    follower.until(fx.CommitRecord, nth=2 if followed else 1)
    state = model.run(TakeOverGoal())
    assert state.applied == V
    head = model.target.head
    with pytest.raises(Fenced):
        follower.finish()
    assert model.target.head == head


def test_a_zombie_spoils_no_more_than_the_round_that_it_was_in() -> None:
    model = planned()
    zombie = writing(model, SNAPSHOT, 3)
    assert model.run(SNAPSHOT).sealed
    with pytest.raises(Fenced):
        zombie.finish()
    assert files_read(model) == Counter(range(6))


def test_maintenance_that_keeps_winning_ends_with_a_name_after_growing_pauses() -> None:
    model = planned()
    attempt, waits = model.start(SNAPSHOT), []
    attempt.until(fx.CommitRecord, nth=2)
    for lost in range(1, CONTENTION_LIMIT + 1):
        attempt.until(fx.CommitRecord)
        model.foreign("OPTIMIZE", data_change=False)
        attempt.step(fx.CommitOutcome(conflict="ConcurrentAppend"))
        if lost < CONTENTION_LIMIT:
            attempt.until(fx.SleepUntil)
            waits.append(attempt.waits_at.until - model.now)  # type: ignore[union-attr]
            attempt.step()
    slept = model.now
    with pytest.raises(TargetContended) as raised:
        attempt.finish()
    assert raised.value.retry
    assert waits[0] >= BACK_OFF_MS and waits == sorted(set(waits))
    assert model.now - slept < BACK_OFF_MS, "it does not wait for nothing"
    assert not model.rounds


def test_a_round_that_lands_forgets_the_lost_ones() -> None:
    model = planned(files=3)
    attempt = model.start(SNAPSHOT)
    for _ in range(3):
        for _ in range(CONTENTION_LIMIT - 1):
            attempt.until(fx.CommitRecord)
            model.foreign("OPTIMIZE", data_change=False)
            attempt.step(fx.CommitOutcome(conflict="ConcurrentAppend"))
        attempt.until(fx.CommitRecord)
        attempt.step()
    attempt.finish()
    assert files_read(model) == Counter(range(3))


# --- killed anywhere ---


def killed_everywhere(make: Callable[[], Model], tasks: list[Goal]) -> None:
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
        assert set(files_read(model).values()) <= {1} and set(epochs_applied(model).values()) <= {1}


def test_a_snapshot_that_was_killed_at_any_effect_reads_every_file_once() -> None:
    killed_everywhere(lambda: planned(), [SNAPSHOT])


def test_a_log_that_was_killed_at_any_effect_holds_every_epoch_once() -> None:
    def make() -> Model:
        model = sealed()
        for rows in (3, 0, 9, 1):
            model.write(rows) if rows else model.optimize()
        model.effects.clear()
        return model

    small = RoundSize(10**9, 4)
    killed_everywhere(make, [ConsumeLogGoal(small, NO_LAG, PATIENCE)])


def test_a_hand_off_that_was_killed_at_any_effect_is_committed_once() -> None:
    def make() -> Model:
        model = sealed(times=3)
        model.effects.clear()
        return model

    killed_everywhere(make, [CATCH_UP, VERIFY, FINISH])
    model = make()
    for task in (CATCH_UP, VERIFY, FINISH, FINISH):
        model.run(task)
    assert events(model).count("finish") == events(model).count("pin") == 1


# --- verification ---


NO_PROOF = (VerificationFailed("two keys differ"), ApplicationFailed("the comparison broke off"))


@pytest.mark.parametrize("error", NO_PROOF, ids=lambda error: error.code)
def test_only_a_comparison_that_succeeded_is_a_proof(error: BackfillError) -> None:
    model = caught_up()
    attempt = model.start(VERIFY)
    attempt.until(fx.VerifyTarget)
    attempt.step(error)
    with pytest.raises(type(error)):
        attempt.finish()
    assert model.state().certificate is None
    with pytest.raises(VerificationFailed):
        model.run(FINISH)


def test_a_proof_names_the_version_that_was_compared() -> None:
    model = caught_up()
    attempt = model.start(VERIFY)
    compared = attempt.until(fx.VerifyTarget)
    model.foreign("OPTIMIZE", data_change=False)
    certificate = attempt.finish().certificate
    assert certificate is not None
    assert (certificate.epoch, certificate.target_version) == (compared.epoch, compared.target_version)
    assert compared.target_version < model.target.head


def test_rows_of_somebody_else_during_the_comparison_make_it_worthless() -> None:
    model = caught_up()
    attempt = model.start(VERIFY)
    attempt.until(fx.VerifyTarget)
    model.foreign("DELETE")
    with pytest.raises(TargetDiverged):
        attempt.finish()
    with pytest.raises(TargetDiverged):
        model.run(FINISH)


@pytest.mark.parametrize("error", [VerificationFailed("rows differ"), HistoryLost("no such version")])
@pytest.mark.parametrize("replaced", [False, True])
def test_a_proof_that_fails_on_another_source_says_so(error: BackfillError, replaced: bool) -> None:
    model = caught_up()
    attempt = model.start(VERIFY)
    attempt.until(fx.VerifyTarget)
    if replaced:
        model.alter(table_id="source-2")
    attempt.step(error)
    with pytest.raises(SourceReplaced if replaced else type(error)):
        attempt.finish()


def test_a_source_that_does_not_answer_is_asked_again_for_a_minute_and_a_half() -> None:
    model = caught_up()
    attempt, begun = model.start(VERIFY), model.now
    while not attempt.ended:
        attempt.step(SourceUnavailable("no answer") if isinstance(attempt.waits_at, fx.VerifyTarget) else None)
    assert isinstance(attempt.error, SourceUnavailable) and attempt.error.retry
    assert 60_000 < model.now - begun <= 90_000
    model.run(VERIFY)


# --- what an attempt looks at ---


def test_files_are_listed_for_the_snapshot_only_and_the_source_watched_from_where_the_build_stands() -> None:
    model = Model()
    model.write(times=2)
    model.finished()
    looks = [(before, look.files) for before, look in pairwise(model.effects) if isinstance(look, fx.ReadCommands)]
    assert any(files for _, files in looks) and not looks[-1][1]
    assert all(isinstance(before, fx.ReadSourceLog) for before, files in looks if files), (
        "listed of a source nobody has looked at"
    )
    watched = [e.after for e in model.effects if isinstance(e, fx.ReadSourceLog)]
    assert watched == sorted(watched) and set(watched) == {V, V + 2}


def test_attempts_are_told_apart_by_name_even_with_one_number() -> None:
    """After a lost control folder two attempts may have drawn one generation."""
    model = planned()
    model.start(SNAPSHOT, Attempt(5, "one")).until(fx.CommitRecord, nth=3)
    with pytest.raises(Fenced):
        model.run(SNAPSHOT, Attempt(5, "two"))
