from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_backfill.core.attempts.goals import CatchUpGoal, ConsumeLogGoal, SnapshotGoal, UpstreamGoal
from airflow_backfill.core.attempts.throttle import POLL_MS
from airflow_backfill.core.errors import BackfillError, FeedOff, HistoryLost, NotConverging, SourceReplaced
from airflow_backfill.core.gates.max_lag import MaxLag
from airflow_backfill.core.splits.position import Consumed, InEpoch
from airflow_backfill.core.state.effect import ApplyEpochs, CommitRecord, Nothing, SleepUntil
from airflow_backfill.core.values.bound import Bound
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.core.values.phase import Event, Phase
from airflow_backfill.core.values.round_size import RoundSize
from tests.core.attempts.runs import epochs_applied, events, files_read
from tests.core.builds import caught_up, finished, planned, sealed, writing
from tests.core.model_target import NO_LAG, PATIENCE, ROUND, Model
from tests.core.running import Running
from tests.core.tasks import CANCEL, CATCH_UP, CONSUME, FINISH, SNAPSHOT, VERIFY, V, follow

# --- the pinned epoch ---


def test_the_pinned_epoch_stays_whatever_the_source_does_meanwhile() -> None:
    model = planned()
    model.write(times=3)
    writing(model, SNAPSHOT, 3)
    model.write(times=2)
    model.run(SNAPSHOT)
    state = model.run(ConsumeLogGoal(ROUND, MaxLag(epochs=9), PATIENCE))
    assert state.applied == state.plan.source.epoch == V
    assert model.run(CONSUME).applied == V + 5 and epochs_applied(model) == Counter(range(V + 1, V + 6))


@pytest.mark.parametrize("files", [0, 1, 2, 6])
@pytest.mark.parametrize("rate", [None, 5])
def test_the_snapshot_is_sealed_exactly_once(files: int, rate: int | None) -> None:
    """Also when the last file fills the last round, and when the throttle holds it back."""
    model = planned(files, splits=2)
    if rate is not None:
        model.order(Command(Verb.THROTTLE, rate))
    model.run(SnapshotGoal(0, 1, RoundSize(200, 10**9)))
    sealed = model.run(CONSUME)
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
    attempt = writing(model, SNAPSHOT, 3)
    model.source.earliest = V + 2
    with pytest.raises(HistoryLost, match=f"epoch {V + 1}"):
        attempt.finish()
    assert len(model.rounds) == 2


FEED_OFF: dict[str, Any] = {"configuration": {}}
NO_COLUMNS: dict[str, Any] = {"schema_json": '{"fields":[]}'}


@pytest.mark.parametrize(("change", "code"), [(FEED_OFF, "SOURCE_FEED_OFF"), (NO_COLUMNS, "SCHEMA_CHANGED")])
def test_what_the_build_cannot_get_past_ends_the_snapshot_at_its_next_round(change: dict[str, Any], code: str) -> None:
    """Not when hours of copying are over, and the epoch is reached."""
    model = planned()
    model.write()
    attempt = writing(model, SNAPSHOT, 3)
    model.alter(**change)
    for run in (attempt.finish, lambda: model.run(SNAPSHOT)):
        with pytest.raises(BackfillError) as raised:
            run()
        assert (raised.value.code, raised.value.retry) == (code, False)
        assert f"epoch {V + 2}" in str(raised.value)
    assert len(model.rounds) == 2


def test_what_comes_after_the_hand_off_epoch_does_not_end_the_build_and_ends_its_follower_there() -> None:
    model = caught_up(times=1)
    model.alter(configuration={})
    assert model.finished_after_proof().handoff == V
    with pytest.raises(FeedOff):
        model.run(follow(V + 2))
    assert model.state().applied == V + 1


RULES = [
    ({"delta.setTransactionRetentionDuration": "interval 1 day"}, "UNSAFE_OPTION", "UNSET TBLPROPERTIES"),
    ({"delta.appendOnly": "true"}, "TARGET_REFUSES", "'delta.appendOnly' = 'false'"),
    ({"delta.constraints.positive": "amount > 0"}, "TARGET_REFUSES", "DROP CONSTRAINT `positive`"),
]


@pytest.mark.parametrize(("properties", "code", "way_out"), RULES, ids=[next(iter(rule[0])) for rule in RULES])
def test_a_rule_of_the_target_stops_the_next_round_and_is_forgotten_when_it_is_taken_off(
    properties: dict[str, str], code: str, way_out: str
) -> None:
    model = planned()
    attempt = writing(model, SNAPSHOT, 3)
    model.set_properties(**properties)
    with pytest.raises(BackfillError, match=way_out) as raised:
        attempt.finish()
    assert (raised.value.code, raised.value.retry) == (code, False)
    # The round under way met a change of metadata, and lost.
    assert len([work for work in model.works if not isinstance(work, Nothing)]) <= 2
    model.set_properties()
    assert model.run(SNAPSHOT).read


def test_a_cancel_asks_no_rule_of_the_target() -> None:
    model = planned()
    model.set_properties(**{"delta.appendOnly": "true"})
    assert model.run(CANCEL).phase is Phase.CANCELLED


def test_a_source_that_was_replaced_during_a_round_gets_no_more_than_that_round() -> None:
    model = planned()
    attempt = writing(model, SNAPSHOT, 3)
    model.alter(table_id="source-2")
    with pytest.raises(SourceReplaced):
        attempt.finish()
    assert len(model.rounds) == 2
    with pytest.raises(SourceReplaced):
        model.run(SNAPSHOT)
    assert len(model.rounds) == 2


def test_a_source_whose_history_went_back_behind_the_applied_epoch_stops() -> None:
    model = sealed(times=2)
    model.run(CONSUME)
    model.source.commits = model.source.commits[:-1]
    with pytest.raises(SourceReplaced, match="9 is already applied"):
        model.run(CATCH_UP)


def test_a_silent_source_is_no_end_of_anything() -> None:
    model = Model()
    assert model.finished().handoff == V
    head = model.target.head
    state = model.run(follow(V))
    assert state.applied == V
    assert events(model)[-1] == "claim" and model.target.head == head + 1


# --- converging ---


def consumed(arrivals: int, capacity: int, *, pending: int, max_lag: int) -> Model:
    """A log to which ``arrivals`` epochs come during each round, of which a round takes ``capacity``."""
    model = sealed(times=pending)
    attempt = model.start(ConsumeLogGoal(RoundSize(10**9, capacity), MaxLag(epochs=max_lag), PATIENCE))
    during_rounds(model, attempt, arrivals)
    attempt.finish()
    return model


def during_rounds(model: Model, attempt: Running, arrivals: int) -> None:
    """The attempt goes on to its end, and so many epochs come during each of its rounds of the log."""
    for _ in range(50_000):
        if attempt.ended:
            return
        if isinstance(attempt.waits_at, CommitRecord) and attempt.waits_at.record.event is Event.EPOCHS:
            model.write(times=arrivals)
        attempt.step()
    raise AssertionError("no end")


@pytest.mark.slow
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
        assert raised.value.data["rounds"] == PATIENCE and raised.value.data["start"] == 0


@pytest.mark.parametrize(
    ("arrivals", "capacity", "lag", "pending"),
    [(1, 1, 0, 100), (40, 10**6, 10, 40)],
    ids=["one arrival a round", "rounds that take everything"],
)
def test_a_log_that_never_comes_within_the_lag_is_named(arrivals: int, capacity: int, lag: int, pending: int) -> None:
    """Though nothing may be left behind by any round, and the target is forty epochs behind for ever."""
    with pytest.raises(NotConverging) as raised:
        consumed(arrivals, capacity, pending=100, max_lag=lag)
    assert raised.value.data["pending"] == pending


def test_a_build_that_is_kept_fresh_for_days_is_not_taken_for_one_that_does_not_converge() -> None:
    """The gate stays closed, each attempt works off what came since the last and ends within the bound."""
    model = sealed()
    for _ in range(100):
        model.write(rows=1, times=8)
        attempt = model.start(ConsumeLogGoal(RoundSize(10**9, 2), MaxLag(epochs=3), PATIENCE))
        during_rounds(model, attempt, arrivals=1)
        assert attempt.error is None


def test_a_build_that_did_not_converge_goes_on_once_its_writers_have_slowed_down() -> None:
    model = sealed(rows=1, times=20)
    one_by_one = RoundSize(10**9, 1)
    with pytest.raises(NotConverging):
        attempt = model.start(ConsumeLogGoal(one_by_one, NO_LAG, PATIENCE))
        during_rounds(model, attempt, arrivals=1)
        attempt.finish()
    cleared = model.run(ConsumeLogGoal(one_by_one, NO_LAG, PATIENCE))
    assert cleared.applied == model.source.head
    assert model.run(CatchUpGoal(one_by_one, NO_LAG, PATIENCE)).phase is Phase.CATCH_UP


def test_the_bounds_start_is_what_was_pending_at_the_seal_whatever_comes_later() -> None:
    model = planned()
    model.write(times=5)
    model.run(SNAPSHOT)
    attempt = model.start(ConsumeLogGoal(RoundSize(10**9, 1), NO_LAG, PATIENCE))
    while "seal" not in events(model):
        attempt.step()
    model.write(times=30)
    assert model.state().bound == Bound(5, 5)
    again = writing(model, ConsumeLogGoal(RoundSize(10**9, 1), NO_LAG, PATIENCE), 2)
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
    model = sealed(times=2)
    attempt = writing(model, CATCH_UP, 2)
    model.write(times=during)
    handoff = attempt.finish().handoff
    assert handoff is not None
    model.write(times=later)
    model.run(VERIFY)
    assert model.run(FINISH).applied == handoff
    state = model.run(follow(model.source.head))
    assert state.applied == model.source.head
    assert epochs_applied(model) == Counter(range(V + 1, model.source.head + 1))
    assert state.phase is (Phase.UPSTREAM if model.source.head > handoff else Phase.FINISHED)


def test_the_finish_needs_no_later_version_of_the_source() -> None:
    model = Model()
    state = model.finished()
    assert (state.handoff, state.applied, model.source.head) == (V, V, V)
    assert state.certificate is not None and state.certificate.target_version < model.target.head


def test_versions_without_rows_advance_the_follower() -> None:
    model = finished()
    for n in range(10):
        model.write() if n % 3 == 0 else model.optimize()
    assert model.run(follow(model.source.head)).applied == V + 10


def test_a_follower_that_was_restarted_knows_its_epoch() -> None:
    model = finished(times=2)
    model.run(follow(V + 2))
    model.write(times=2)
    model.run(follow(V + 4))
    assert epochs_applied(model) == Counter(range(V + 1, V + 5))
    assert model.state().totals.upstream_epochs == 4


def test_a_follower_runs_until_its_time_and_wakes_up_for_new_epochs() -> None:
    model = finished()
    end = model.now + 120_000
    attempt = model.start(UpstreamGoal(ROUND, until=end))
    while not attempt.ended:
        if isinstance(attempt.waits_at, SleepUntil) and model.source.head < V + 5:
            model.write()
        attempt.step()
    assert attempt.error is None
    assert end <= model.now <= end + POLL_MS and model.state().applied == V + 5


# --- an epoch in part ---


def test_an_epoch_that_was_killed_between_its_parts_is_finished_by_the_next_attempt_with_any_round_size() -> None:
    model = sealed(rows=10)
    writing(model, ConsumeLogGoal(RoundSize(10**9, 4), NO_LAG, PATIENCE), 3)
    state = model.state()
    assert (state.positions[0], state.applied) == (InEpoch(8, 1, 3), V)
    state = model.run(CatchUpGoal(RoundSize(10**9, 2), NO_LAG, PATIENCE))
    assert state.positions[0] == Consumed(8)
    assert [(w.bucket, w.of) for w in model.works if isinstance(w, ApplyEpochs)] == [(0, 3), (1, 3), (2, 3)]
    assert state.totals.log_epochs == 1


def test_nothing_is_handed_off_between_the_parts_of_an_epoch() -> None:
    model = sealed(rows=10)
    writing(model, ConsumeLogGoal(RoundSize(10**9, 4), NO_LAG, PATIENCE), 3)
    model.run(CatchUpGoal(ROUND, MaxLag(epochs=9), PATIENCE))
    pins = [r for r in model.records() if r.event is Event.PIN]
    assert [pin.positions[0] for pin in pins] == [Consumed(8)]
