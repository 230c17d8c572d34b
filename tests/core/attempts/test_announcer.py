"""Epochs of a chain are announced beside the work on their data: each once, in order, until the data has caught up."""

from __future__ import annotations

import pytest

from airflow_backfill.core.attempts.announcer import EVERY
from airflow_backfill.core.attempts.goals import CatchUpGoal, ConsumeLogGoal
from airflow_backfill.core.attempts.recovery import recover
from airflow_backfill.core.errors import Fenced, HistoryLost, NotAllowedNow, SchemaChanged, SourceReplaced
from airflow_backfill.core.gates.gate import Conditions, Waiting, decide_by_record
from airflow_backfill.core.gates.max_lag import MaxLag
from airflow_backfill.core.model.announcement import Kind
from airflow_backfill.core.state import effect as fx
from airflow_backfill.core.strategies.chain import unannounced
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.core.values.epoch import EpochRange
from airflow_backfill.core.values.phase import Event, Phase
from tests.core.builds import writing
from tests.core.chain_model import ChainModel, caught_up, claimed, consumed, turns
from tests.core.model_target import PATIENCE, ROUND
from tests.core.running import Running
from tests.core.tasks import CANCEL, CATCH_UP, CONSUME, FINISH, READ, VERIFY, V, follow

LOOSE = ConsumeLogGoal(ROUND, MaxLag(epochs=50), PATIENCE)


def test_the_plan_itself_says_that_the_pinned_epoch_is_seen() -> None:
    state = ChainModel().state()
    assert (state.seen, state.applied, state.rearranging) == (V, None, True)


def test_epochs_are_announced_while_one_round_of_the_snapshot_lasts() -> None:
    model, work, announcer = claimed()
    work.until(fx.CommitRecord)
    for times in (1, 3):
        model.write(times=times)
        turns(announcer)
        assert (model.state().seen, model.state().applied) == (model.source.head, None)
    assert model.kinds() == ["claim", "epochs", "epochs"]
    assert model.announced() == [V + 1, V + 2, V + 3, V + 4]
    model.together(work, announcer)
    state = model.state()
    assert (state.seen, state.totals.snapshot_rows, state.sealed) == (V + 4, 60, True)


def test_no_data_goes_ahead_of_its_announcement() -> None:
    model = ChainModel()
    model.run(READ)
    model.write(times=3)
    work = model.start(CONSUME)
    while not isinstance(work.waits_at, fx.SleepUntil):
        work.step()
    assert (model.state().applied, model.state().seen) == (V, V)
    assert work.waits_at.why == "epochs are announced before they are applied"


def test_after_the_finish_nothing_is_read_committed_or_announced_again() -> None:
    """Whichever task runs again, with a source that has moved on."""
    model = caught_up()
    certificate = model.finished_after_proof().certificate
    model.write(times=3)
    head, effects = model.target.head, len(model.effects)
    for task in (READ, CONSUME, CATCH_UP, VERIFY, FINISH):
        me = model.attempt()
        work, announcer = model.start(task, me), model.beside(me)
        assert (work.finish().certificate, work.result.handoff) == (certificate, V)
        announcer.finish()
    assert model.target.head == head
    assert not [
        effect
        for effect in model.effects[effects:]
        if isinstance(effect, (fx.ReadSourceLog, fx.NextChunk, fx.VerifyTarget))
    ]


def test_the_data_catches_up_with_what_was_announced_and_then_epochs_show_with_their_data() -> None:
    model, work, announcer = claimed()
    model.write(times=2)
    model.together(work, announcer)
    model.run_announced(CONSUME)
    state = model.run_announced(CATCH_UP)
    assert (state.applied, state.seen, state.rearranging, state.announced) == (V + 2, V + 2, False, None)
    assert model.kinds()[-1] == "caught_up" and model.kinds().count("caught_up") == 1
    model.run(VERIFY)
    assert model.records()[-1].announced is None and model.announced() == [V + 1, V + 2]


def test_a_silent_source_is_caught_up_by_the_end_of_its_snapshot() -> None:
    model = caught_up()
    assert [one.kind for one in model.news() if one.kind is not Kind.CLAIM] == [Kind.CAUGHT_UP]
    assert (model.state().handoff, model.state().rearranging) == (V, False)


def test_it_compares_only_after_a_fresh_look_found_nothing_new() -> None:
    """Applied is what was announced, but the source has gone on: not caught up."""
    model = ChainModel()
    model.run(READ)
    me = model.attempt()
    work = writing(model, CONSUME, 2, me=me)
    work.step()
    assert model.state().phase is Phase.CONSUME_LOG
    model.write()
    announcer = model.beside(me)
    announcer.until(fx.SleepUntil)
    assert model.kinds() == ["claim", "epochs"]


def test_epochs_that_come_all_the_time_are_caught_up_with_at_the_hand_off_epoch() -> None:
    model = consumed()
    state = model.run_announced(CatchUpGoal(ROUND, MaxLag(epochs=50), PATIENCE), busy=True)
    assert state.handoff == state.applied and not state.rearranging and model.source.head > V + 3
    assert max(model.announced(), default=V) <= (state.handoff or 0) + 1


def test_an_application_within_the_bound_announces_what_is_there_and_if_the_source_rests_ends_it() -> None:
    model = consumed(times=3)
    assert unannounced(model.state(), model.view(V))
    state = model.run_announced(LOOSE)
    assert (model.announced(), model.kinds()[-1]) == ([V + 1, V + 2, V + 3], "caught_up")
    assert (state.applied, state.rearranging, unannounced(state, model.view(V))) == (V + 3, False, False)


def test_a_source_that_never_rests_keeps_no_application_running() -> None:
    state = consumed(times=3).run_announced(LOOSE, busy=True)
    assert state.rearranging and state.applied is not None and state.seen is not None
    assert state.seen >= V + 3 and state.applied > V


def test_epochs_are_announced_in_a_pause_too() -> None:
    model = consumed(times=2)
    model.order(Command(Verb.PAUSE))
    model.run_announced(LOOSE)
    assert (model.state().applied, model.state().seen) == (V, V + 2)


def test_nothing_is_announced_from_an_epoch_on_that_stops_the_build_and_nobody_waits_for_it() -> None:
    model = consumed(times=1)
    model.alter(schema_json='{"fields":[]}')
    with pytest.raises(SchemaChanged):
        model.run(LOOSE)
    state = model.state()
    assert (state.applied, state.seen) == (V, V)


def test_what_was_announced_while_an_earlier_epoch_became_the_hand_off_stays_seen() -> None:
    model = consumed()
    me = model.attempt()
    work = writing(model, CATCH_UP, me=me)
    work.step()
    work.until(fx.CommitRecord)
    model.write(times=2)
    announcer = model.beside(me)
    announcer.until(fx.SleepUntil)
    assert model.announced() == [V + 1, V + 2]
    model.together(work, announcer)
    state = model.state()
    assert (state.handoff, state.applied, state.seen, state.rearranging) == (V, V, V + 2, False)
    model.finished_after_proof()
    assert model.state().seen == V + 2
    state = model.run(follow(V + 2))
    assert (state.applied, state.seen, state.announced) == (V + 2, V + 2, None)


def test_nothing_is_proven_before_the_data_has_caught_up() -> None:
    model = consumed()
    work = model.start(CATCH_UP)
    work.until(fx.SleepUntil)
    assert (model.state().applied, model.state().handoff) == (V, V)
    with pytest.raises(NotAllowedNow, match="not all announced epochs are applied"):
        model.run(VERIFY)


def test_an_attempt_begins_with_all_epochs_that_the_source_had_and_so_with_the_correction_of_an_earlier_one() -> None:
    model = consumed(times=2)
    me = model.attempt()
    work, announcer = model.start(CONSUME, me), model.beside(me)
    while model.state().seen != V + 2:
        work.step()
        announcer.step()
    model.write()
    model.run_announced(CONSUME)
    assert next(r.epochs for r in model.records() if r.epochs is not None) == EpochRange(V + 1, V + 4)


def test_a_restart_goes_on_where_announcing_stopped() -> None:
    model, _, announcer = claimed()
    model.write(times=2)
    turns(announcer)
    model.write(times=2)
    _, announcer = model.claimed()
    turns(announcer)
    assert model.announced() == [V + 1, V + 2, V + 3, V + 4]
    assert [one.seq for one in model.news()] == list(range(1, len(model.news()) + 1))


def test_it_begins_with_its_attempt_and_not_before() -> None:
    model = ChainModel()
    me = model.attempt()
    announcer = model.beside(me)
    announcer.until(fx.SleepUntil)
    assert model.kinds() == []
    work = writing(model, READ, me=me)
    work.step()
    turns(announcer)
    assert model.kinds() == ["claim"]


def test_a_sleeper_is_fenced() -> None:
    model, _, sleeper = claimed()
    model.write()
    model.claimed()
    with pytest.raises(Fenced):
        sleeper.finish()
    assert model.announced() == [V + 1] or model.announced() == []
    assert len({one.seq for one in model.news()}) == len(model.news())


def test_an_announcement_that_lost_its_number_is_not_believed() -> None:
    model, _, sleeper = claimed()
    model.write()
    sleeper.until(fx.CommitRecord)
    model.claimed()
    sleeper.step()
    with pytest.raises(Fenced):
        sleeper.finish()


def test_ten_thousand_epochs_are_one_announcement() -> None:
    model, _, announcer = claimed()
    model.write(times=10_000)
    turns(announcer)
    assert [one.epochs for one in model.news() if one.epochs is not None] == [EpochRange(V + 1, V + 10_001)]


def test_it_looks_as_often_as_it_says() -> None:
    model, _, announcer = claimed()
    waits = announcer.waits_at
    assert isinstance(waits, fx.SleepUntil) and waits.until - model.now <= EVERY


def test_a_pause_holds_back_rows_and_not_announcements() -> None:
    model, _, announcer = claimed()
    model.order(Command(Verb.PAUSE))
    model.write()
    turns(announcer)
    assert model.state().seen == V + 1


def test_nothing_is_announced_after_a_cancel() -> None:
    model, _, announcer = claimed()
    model.order(Command(Verb.CANCEL))
    model.write()
    turns(announcer)
    model.run(CANCEL)
    turns(announcer)
    assert model.announced() == []


def test_an_epoch_that_stops_the_build_is_not_announced() -> None:
    model, _, announcer = claimed()
    model.write()
    model.alter(configuration={})
    model.write()
    turns(announcer)
    assert model.announced() == [V + 1]


@pytest.mark.parametrize("what", ["replaced", "lost"])
def test_a_source_that_cannot_be_followed_ends_it_by_name(what: str) -> None:
    model, _, announcer = claimed()
    model.write(times=2)
    if what == "replaced":
        model.alter(table_id="another")
    else:
        model.source.earliest = model.source.head
    with pytest.raises(SourceReplaced if what == "replaced" else HistoryLost):
        announcer.finish()


def test_a_recovered_build_announces_nothing_any_more() -> None:
    model, _, announcer = claimed()
    model.write()
    Running(model, recover(model.attempt(), V)).finish()
    assert not model.state().rearranging
    assert announcer.finish().phase is Phase.CATCH_UP
    assert model.run(CATCH_UP).applied == V


def test_the_state_is_read_back_over_many_announcements() -> None:
    """Of a long row of them only the last is read, then the barrier that it names."""
    model, work, announcer = claimed()
    for _ in range(50):
        model.write()
        turns(announcer)
    model.effects.clear()
    state = model.state()
    reads = [effect for effect in model.effects if isinstance(effect, fx.ReadCommit)]
    assert (state.seen, len(reads) < 8) == (V + 50, True)
    model.together(work, announcer)
    model.run_announced(CONSUME)
    assert (model.state().seen, model.state().rearranging) == (V + 50, False)


def test_after_the_hand_off_epochs_are_followed_without_announcements() -> None:
    model = caught_up()
    model.finished_after_proof()
    model.write(times=2)
    state = model.run(follow(V + 2))
    assert (state.applied, state.seen) == (V + 2, V + 2) and model.announced() == []


def test_a_record_names_the_newest_announcement() -> None:
    model, work, announcer = claimed()
    model.write()
    turns(announcer)
    work.until(fx.CommitRecord)
    work.step()
    newest = model.target.head
    assert model.records()[-1].event is Event.FILES and model.records()[-1].announced in (newest - 1, newest - 2)


def test_the_gate_takes_an_epoch_that_is_announced_after_the_newest_record_for_no_restored_source() -> None:
    model = consumed()
    me = model.attempt()
    work = model.start(CONSUME, me)
    work.until(fx.CommitRecord)
    work.step()
    announcer = model.beside(me)
    announcer.until(fx.CommitRecord)  # its claim
    model.write()
    announcer.until(fx.SleepUntil)
    state = model.state()
    assert state.newest is not None and state.newest.record.pending is not None and state.seen is not None
    assert state.seen > state.newest.record.pending.head
    found = decide_by_record(state, model.view(state.reached), [], Conditions(MaxLag(epochs=0)), model.now)
    assert isinstance(found, Waiting) and found.lag, found
