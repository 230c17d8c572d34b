"""Epochs of a chain are announced beside the work on their data: each once, in order, until the data has caught up."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from airflow_backfill.core.attempts.announcer import EVERY, announce
from airflow_backfill.core.attempts.goals import (
    CancelGoal,
    CatchUpGoal,
    ConsumeLogGoal,
    FinishGoal,
    SnapshotGoal,
    UpstreamGoal,
    VerifyGoal,
)
from airflow_backfill.core.attempts.recovery import recover
from airflow_backfill.core.errors import Fenced, HistoryLost, NotAllowedNow, SchemaChanged, SourceReplaced
from airflow_backfill.core.gates.max_lag import MaxLag
from airflow_backfill.core.model.announcement import Announcement, Kind, announcement
from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.core.state import effect as fx
from airflow_backfill.core.strategies.chain import unannounced
from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.core.values.epoch import EpochRange
from airflow_backfill.core.values.phase import Event, Phase
from tests.core.builds import writing
from tests.core.model_target import NO_LAG, PATIENCE, ROUND, Model, Running

V = 7
SPEC = BackfillSpec(name="orders", source="/lake/orders", target="/marts/orders", key=("id",), strategy="chain")
CONSUME = ConsumeLogGoal(ROUND, NO_LAG, PATIENCE)
CATCH_UP = CatchUpGoal(ROUND, NO_LAG, PATIENCE)


def chain() -> Model:
    model = Model(spec=SPEC)
    model.plan()
    return model


def news(model: Model) -> list[Announcement]:
    found = (announcement(commit) for commit in map(model.target.read, range(model.target.head + 1)))
    return [one for one in found if one is not None]


def kinds(model: Model) -> list[str]:
    return [one.kind.value for one in news(model)]


def beside(model: Model, me: Attempt) -> Running:
    """The announcer of an attempt."""
    return Running(model, announce(Attempt(me.generation, f"{me.name}/seen")))


def claimed(model: Model) -> tuple[Running, Running]:
    """An attempt at the snapshot that has its lane, and its announcer, which has its own."""
    me = model.attempt()
    work = writing(model, SnapshotGoal(0, 1, ROUND), me=me)
    work.step()
    announcer = beside(model, me)
    announcer.until(fx.CommitRecord)
    announcer.until(fx.SleepUntil)
    return work, announcer


def turns(announcer: Running, model: Model, times: int = 1) -> None:
    """The announcer looks again, so often."""
    for _ in range(times):
        announcer.step()
        if not announcer.ended:
            announcer.until(fx.SleepUntil)


def together(work: Running, announcer: Running) -> None:
    """Both go on, step by step, until the work ends."""
    while not work.ended:
        work.step()
        if not announcer.ended:
            announcer.step()
    assert work.error is None, work.error


def consumed(model: Model) -> None:
    """The snapshot is sealed, and the data stands where the source does; nothing of that is announced."""
    model.run(SnapshotGoal(0, 1, ROUND))
    model.start(CONSUME).until(fx.SleepUntil)


def caught_up(model: Model) -> None:
    """The snapshot is read, and the log up to the hand-off epoch, announcing included."""
    model.run(SnapshotGoal(0, 1, ROUND))
    for task in (CONSUME, CATCH_UP):
        me = model.attempt()
        together(model.start(task, me), beside(model, me))


def announced(model: Model) -> list[int]:
    return [epoch for one in news(model) if one.epochs is not None for epoch in _epochs(one.epochs)]


def _epochs(epochs: EpochRange) -> Iterator[int]:
    yield from range(epochs.start, epochs.stop)


def test_the_plan_itself_says_that_the_pinned_epoch_is_seen() -> None:
    state = chain().state()
    assert (state.seen, state.applied, state.rearranging) == (V, None, True)


def test_epochs_are_announced_while_one_round_of_the_snapshot_lasts() -> None:
    model = chain()
    work, announcer = claimed(model)
    work.until(fx.CommitRecord)
    for times in (1, 3):
        model.write(times=times)
        turns(announcer, model)
        assert (model.state().seen, model.state().applied) == (model.source.head, None)
    assert kinds(model) == ["claim", "epochs", "epochs"]
    assert announced(model) == [V + 1, V + 2, V + 3, V + 4]
    together(work, announcer)
    state = model.state()
    assert (state.seen, state.totals.snapshot_rows, state.sealed) == (V + 4, 60, True)


def test_no_data_goes_ahead_of_its_announcement() -> None:
    model = chain()
    model.run(SnapshotGoal(0, 1, ROUND))
    model.write(times=3)
    work = model.start(CONSUME)
    while not isinstance(work.waits_at, fx.SleepUntil):
        work.step()
    assert (model.state().applied, model.state().seen) == (V, V)
    assert work.waits_at.why == "all announced epochs are applied"


def test_after_the_finish_nothing_is_read_committed_or_announced_again() -> None:
    """Whichever task runs again, with a source that has moved on."""
    model = chain()
    caught_up(model)
    certificate = model.finished_after_proof().certificate
    model.write(times=3)
    head, effects = model.target.head, len(model.effects)
    for task in (SnapshotGoal(0, 1, ROUND), CONSUME, CATCH_UP, VerifyGoal(), FinishGoal()):
        me = model.attempt()
        work, announcer = model.start(task, me), beside(model, me)
        assert (work.finish().certificate, work.result.handoff) == (certificate, V)
        announcer.finish()
    assert model.target.head == head
    assert not [
        effect
        for effect in model.effects[effects:]
        if isinstance(effect, (fx.ReadSourceLog, fx.NextChunk, fx.VerifyTarget))
    ]


def test_the_data_catches_up_with_what_was_announced_and_then_epochs_show_with_their_data() -> None:
    model = chain()
    work, announcer = claimed(model)
    model.write(times=2)
    together(work, announcer)
    me = model.attempt()
    work = model.start(ConsumeLogGoal(ROUND, MaxLag(epochs=0), PATIENCE), me)
    together(work, beside(model, me))
    me = model.attempt()
    together(model.start(CATCH_UP, me), beside(model, me))
    state = model.state()
    assert (state.applied, state.seen, state.rearranging, state.announced) == (V + 2, V + 2, False, None)
    assert kinds(model)[-1] == "caught_up" and kinds(model).count("caught_up") == 1
    model.run(VerifyGoal())
    assert model.records()[-1].announced is None and announced(model) == [V + 1, V + 2]


def test_a_silent_source_is_caught_up_by_the_end_of_its_snapshot() -> None:
    model = chain()
    caught_up(model)
    assert [one.kind for one in news(model) if one.kind is not Kind.CLAIM] == [Kind.CAUGHT_UP]
    assert (model.state().handoff, model.state().rearranging) == (V, False)


def test_it_compares_only_after_a_fresh_look_found_nothing_new() -> None:
    """Applied is what was announced, but the source has gone on: not caught up."""
    model = chain()
    model.run(SnapshotGoal(0, 1, ROUND))
    me = model.attempt()
    work = writing(model, CONSUME, 2, me=me)
    work.step()
    assert model.state().phase is Phase.CONSUME_LOG
    model.write()
    announcer = beside(model, me)
    announcer.until(fx.SleepUntil)
    assert kinds(model) == ["claim", "epochs"]


def test_epochs_that_come_all_the_time_are_caught_up_with_at_the_hand_off_epoch() -> None:
    model = chain()
    consumed(model)
    me = model.attempt()
    work, announcer = model.start(CatchUpGoal(ROUND, MaxLag(epochs=50), PATIENCE), me), beside(model, me)
    while not work.ended:
        if isinstance(work.waits_at, fx.ReadCommands):
            model.write()
        work.step()
        if not announcer.ended:
            announcer.step()
    state = model.state()
    assert state.handoff == state.applied and not state.rearranging and model.source.head > V + 3
    assert max(announced(model), default=V) <= (state.handoff or 0) + 1


LOOSE = ConsumeLogGoal(ROUND, MaxLag(epochs=50), PATIENCE)


def test_an_application_within_the_bound_announces_what_is_there_and_if_the_source_rests_ends_it() -> None:
    model = chain()
    consumed(model)
    model.write(times=3)
    assert unannounced(model.state(), model.view(V))
    me = model.attempt()
    together(model.start(LOOSE, me), beside(model, me))
    state = model.state()
    assert (announced(model), kinds(model)[-1]) == ([V + 1, V + 2, V + 3], "caught_up")
    assert (state.applied, state.rearranging, unannounced(state, model.view(V))) == (V + 3, False, False)


def test_a_source_that_never_rests_keeps_no_application_running() -> None:
    model = chain()
    consumed(model)
    model.write(times=3)
    me = model.attempt()
    work, announcer = model.start(LOOSE, me), beside(model, me)
    while not work.ended:
        if isinstance(work.waits_at, fx.ReadCommands):
            model.write()
        work.step()
        announcer.step()
    state = model.state()
    assert state.rearranging and state.applied is not None and state.seen is not None
    assert state.seen >= V + 3 and state.applied > V


def test_epochs_are_announced_in_a_pause_too() -> None:
    model = chain()
    consumed(model)
    model.write(times=2)
    model.order(Command(Verb.PAUSE))
    me = model.attempt()
    together(model.start(LOOSE, me), beside(model, me))
    assert (model.state().applied, model.state().seen) == (V, V + 2)


def test_nothing_is_announced_from_an_epoch_on_that_stops_the_build_and_nobody_waits_for_it() -> None:
    model = chain()
    consumed(model)
    model.write()
    model.alter(schema_json='{"fields":[]}')
    with pytest.raises(SchemaChanged):
        model.run(LOOSE)
    state = model.state()
    assert (state.applied, state.seen) == (V, V)


def test_what_was_announced_while_an_earlier_epoch_became_the_hand_off_stays_seen() -> None:
    model = chain()
    consumed(model)
    me = model.attempt()
    work = writing(model, CATCH_UP, me=me)
    work.step()
    work.until(fx.CommitRecord)
    model.write(times=2)
    announcer = beside(model, me)
    announcer.until(fx.SleepUntil)
    assert announced(model) == [V + 1, V + 2]
    together(work, announcer)
    state = model.state()
    assert (state.handoff, state.applied, state.seen, state.rearranging) == (V, V, V + 2, False)
    model.finished_after_proof()
    assert model.state().seen == V + 2
    state = model.run(UpstreamGoal(ROUND, upto=V + 2))
    assert (state.applied, state.seen, state.announced) == (V + 2, V + 2, None)


def test_nothing_is_proven_before_the_data_has_caught_up() -> None:
    model = chain()
    consumed(model)
    work = model.start(CATCH_UP)
    work.until(fx.SleepUntil)
    assert (model.state().applied, model.state().handoff) == (V, V)
    with pytest.raises(NotAllowedNow, match="not all announced epochs are applied"):
        model.run(VerifyGoal())


def test_a_restart_goes_on_where_announcing_stopped() -> None:
    model = chain()
    _, announcer = claimed(model)
    model.write(times=2)
    turns(announcer, model)
    model.write(times=2)
    _, announcer = claimed(model)
    turns(announcer, model)
    assert announced(model) == [V + 1, V + 2, V + 3, V + 4]
    assert [one.seq for one in news(model)] == list(range(1, len(news(model)) + 1))


def test_it_begins_with_its_attempt_and_not_before() -> None:
    model = chain()
    me = model.attempt()
    announcer = beside(model, me)
    announcer.until(fx.SleepUntil)
    assert kinds(model) == []
    work = writing(model, SnapshotGoal(0, 1, ROUND), me=me)
    work.step()
    turns(announcer, model)
    assert kinds(model) == ["claim"]


def test_a_sleeper_is_fenced() -> None:
    model = chain()
    _, sleeper = claimed(model)
    model.write()
    claimed(model)
    with pytest.raises(Fenced):
        sleeper.finish()
    assert announced(model) == [V + 1] or announced(model) == []
    assert len({one.seq for one in news(model)}) == len(news(model))


def test_an_announcement_that_lost_its_number_is_not_believed() -> None:
    model = chain()
    _, sleeper = claimed(model)
    model.write()
    sleeper.until(fx.CommitRecord)
    claimed(model)
    sleeper.step()
    with pytest.raises(Fenced):
        sleeper.finish()


def test_ten_thousand_epochs_are_one_announcement() -> None:
    model = chain()
    _, announcer = claimed(model)
    model.write(times=10_000)
    turns(announcer, model)
    assert [one.epochs for one in news(model) if one.epochs is not None] == [EpochRange(V + 1, V + 10_001)]


def test_it_looks_as_often_as_it_says() -> None:
    model = chain()
    _, announcer = claimed(model)
    waits = announcer.waits_at
    assert isinstance(waits, fx.SleepUntil) and waits.until - model.now <= EVERY


def test_a_pause_holds_back_rows_and_not_announcements() -> None:
    model = chain()
    _, announcer = claimed(model)
    model.order(Command(Verb.PAUSE))
    model.write()
    turns(announcer, model)
    assert model.state().seen == V + 1


def test_nothing_is_announced_after_a_cancel() -> None:
    model = chain()
    _, announcer = claimed(model)
    model.order(Command(Verb.CANCEL))
    model.write()
    turns(announcer, model)
    model.run(CancelGoal())
    turns(announcer, model)
    assert announced(model) == []


def test_an_epoch_that_stops_the_build_is_not_announced() -> None:
    model = chain()
    _, announcer = claimed(model)
    model.write()
    model.alter(configuration={})
    model.write()
    turns(announcer, model)
    assert announced(model) == [V + 1]


@pytest.mark.parametrize("what", ["replaced", "lost"])
def test_a_source_that_cannot_be_followed_ends_it_by_name(what: str) -> None:
    model = chain()
    _, announcer = claimed(model)
    model.write(times=2)
    if what == "replaced":
        model.alter(table_id="another")
    else:
        model.source.earliest = model.source.head
    with pytest.raises(SourceReplaced if what == "replaced" else HistoryLost):
        announcer.finish()


def test_a_recovered_build_announces_nothing_any_more() -> None:
    model = chain()
    _, announcer = claimed(model)
    model.write()
    Running(model, recover(model.attempt(), V)).finish()
    assert not model.state().rearranging
    assert announcer.finish().phase is Phase.CATCH_UP
    assert model.run(CATCH_UP).applied == V


def test_the_state_is_read_back_over_many_announcements() -> None:
    """Of a long row of them only the last is read, then the barrier that it names."""
    model = chain()
    work, announcer = claimed(model)
    for _ in range(50):
        model.write()
        turns(announcer, model)
    model.effects.clear()
    state = model.state()
    reads = [effect for effect in model.effects if isinstance(effect, fx.ReadCommit)]
    assert (state.seen, len(reads) < 8) == (V + 50, True)
    together(work, announcer)
    me = model.attempt()
    together(model.start(CONSUME, me), beside(model, me))
    assert (model.state().seen, model.state().rearranging) == (V + 50, False)


def test_after_the_hand_off_epochs_are_followed_without_announcements() -> None:
    model = chain()
    caught_up(model)
    model.finished_after_proof()
    model.write(times=2)
    state = model.run(UpstreamGoal(ROUND, upto=V + 2))
    assert (state.applied, state.seen) == (V + 2, V + 2) and announced(model) == []


def test_a_record_names_the_newest_announcement() -> None:
    model = chain()
    work, announcer = claimed(model)
    model.write()
    turns(announcer, model)
    work.until(fx.CommitRecord)
    work.step()
    newest = model.target.head
    assert model.records()[-1].event is Event.FILES and model.records()[-1].announced in (newest - 1, newest - 2)
