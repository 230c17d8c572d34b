from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_backfill.core.commit import Commit
from airflow_backfill.core.control import Command, Verb
from airflow_backfill.core.effect import FileSize, Write
from airflow_backfill.core.epoch import EpochRange
from airflow_backfill.core.errors import BackfillError, Discontinuous, NotAllowedNow, PositionRegressed, RecordInvalid
from airflow_backfill.core.gate import MaxLag
from airflow_backfill.core.lag import Bound
from airflow_backfill.core.phase import Event, Phase
from airflow_backfill.core.position import AtFile, Consumed, InEpoch, Position, rank
from airflow_backfill.core.record import Layout, barrier_record
from airflow_backfill.core.snapshot_round import RoundSize
from airflow_backfill.core.state import Barrier, BuildState, apply, opened
from airflow_backfill.core.task import (
    CancelTask,
    CatchUpTask,
    ConsumeLogTask,
    FinishTask,
    ResumeTask,
    SnapshotTask,
    UpstreamTask,
    VerifyTask,
)
from airflow_backfill.core.totals import Totals
from tests.core.model import PATIENCE, ROUND, Model
from tests.core.states import CERTIFICATE, V

SMALL = RoundSize(bytes=200, rows=6)


def barriers(model: Model) -> Iterator[Barrier]:
    for version in range(model.target.head + 1):
        commit = model.target.read(version)
        record = barrier_record(commit)
        if record is not None:
            yield Barrier.of(commit, record)


def states(model: Model) -> list[BuildState]:
    """The state after every barrier of the target's log, beginning with the plan."""
    assert model.stored_plan is not None
    found = [BuildState.planned(model.stored_plan)]
    for barrier in barriers(model):
        found.append(apply(found[-1], barrier))
    return found


def random_build(seed: int) -> Model:
    """A build by attempts that are begun, given up and begun again, in whatever order the tasks allow."""
    rng = random.Random(seed)
    files = [FileSize(rng.randrange(1, 150), rng.randrange(12)) for _ in range(rng.choice([0, 1, 3, 8]))]
    model = Model(files, splits=rng.randrange(1, 5))
    model.plan(lanes=rng.choice([1, 1, 2, 3]))
    for _ in range(rng.randrange(4, 40)):
        for _ in range(rng.randrange(3)):
            rng.choice([lambda: model.write(rng.randrange(15)), model.optimize])()
        if rng.random() < 0.2:
            model.order(rng.choice([Command(Verb.HOLD), Command(Verb.RELEASE), Command(Verb.THROTTLE, 50)]))
        lanes = rng.choice([1, 1, 2, 3])
        task = rng.choice(
            [
                SnapshotTask(rng.randrange(lanes), lanes, SMALL),
                SnapshotTask(0, 1, SMALL),
                ConsumeLogTask(SMALL, MaxLag(epochs=rng.randrange(3)), PATIENCE),
                CatchUpTask(SMALL, MaxLag(epochs=rng.randrange(3)), PATIENCE),
                VerifyTask(),
                FinishTask(),
                FinishTask(verified=False),
                UpstreamTask(SMALL, upto=model.source.head),
                CancelTask(),
                ResumeTask(len(model.commands)),
            ]
        )
        attempt = model.start(task)
        for _ in range(rng.choice([5, 15, 10**6])):
            if attempt.ended:
                break
            attempt.step()
    return model


SEEDS = st.integers(0, 10**9)


@given(SEEDS)
def test_no_reachable_state_claims_an_epoch_before_every_split_is_there(seed: int) -> None:
    for state in states(random_build(seed)):
        epochs = {p.epoch if isinstance(p, Consumed) else None for p in state.positions}
        if state.applied is not None:
            assert state.applied >= V
            assert None not in epochs or all(isinstance(p, InEpoch) for p in state.positions)
            assert len(set(state.positions)) == 1
        if state.phase is Phase.SNAPSHOT:
            assert state.applied is None
        elif state.phase is not Phase.CANCELLED:
            assert state.applied is not None


@given(SEEDS)
def test_progress_and_counters_only_grow(seed: int) -> None:
    for before, after in pairwise(states(random_build(seed))):
        assert all(rank(b) >= rank(a) for a, b in zip(before.positions, after.positions, strict=True))
        assert before.reached <= after.reached
        gained = (getattr(after.totals, f) - getattr(before.totals, f) for f in Totals.__slots__)
        assert all(n >= 0 for n in gained)


@given(SEEDS)
def test_the_last_records_alone_are_the_whole_state(seed: int) -> None:
    """Whatever was committed before the last barrier of each lane may be gone from the log."""
    for state in states(random_build(seed)):
        if state.newest is None:
            continue
        again = BuildState.resumed(state.plan, state.lanes, state.proven)
        assert again == state


@given(SEEDS)
def test_counters_are_the_sums_of_what_was_committed(seed: int) -> None:
    model = random_build(seed)
    rows = {Event.FILES: 0, Event.EPOCHS: 0}
    files = 0
    for barrier in barriers(model):
        if barrier.record.event in rows:
            rows[barrier.record.event] += barrier.rows
            files += barrier.record.work.snapshot_files
    totals = states(model)[-1].totals
    assert totals.snapshot_rows == rows[Event.FILES]
    assert totals.log_rows + totals.upstream_rows == rows[Event.EPOCHS]
    assert totals.snapshot_files == files <= len(model.files)


@given(SEEDS, st.data())
def test_a_barrier_that_moves_nothing_may_stand_anywhere(seed: int, data: st.DataObject) -> None:
    """An acknowledged command or a renewed record leaves positions, phase and totals as they are."""
    found = [s for s in states(random_build(seed)) if s.newest is not None and not s.newest.record.closed]
    if not found:
        return
    state = data.draw(st.sampled_from(found))
    if state.phase is Phase.CANCELLED or state.newest is None:
        return
    marked = apply(state, after(state, state.newest.record.lane, Event.MARK))
    assert (marked.positions, marked.phase, marked.totals) == (state.positions, state.phase, state.totals)
    assert (marked.applied, marked.bound, marked.handoff) == (state.applied, state.bound, state.handoff)


def after(state: BuildState, lane: int, event: Event, **changes: Any) -> Barrier:
    """The barrier that the lane's owner would write next, but for the changes."""
    last = state.lanes[lane]
    assert last is not None and state.newest is not None
    record = replace(
        last.record,
        seq=last.record.seq + 1,
        prev=state.newest.version,
        event=event,
        positions=state.positions,
        totals=last.totals,
        work=Totals(),
        epochs=None,
        bound=state.bound,
        handoff=state.handoff,
        certificate=state.certificate,
    )
    return Barrier(state.newest.version + 1, 0, replace(record, **changes), 0)


# --- what apply refuses ---

SEALED = Model().sealed()
HALF = Model()
HALF.plan()
HALF.run(SnapshotTask(0, 1, RoundSize(200, 1_000)))
HALF_READ = states(HALF)[2]
BEGUN = next(s for s in states(HALF) if s.positions[0] == Consumed(V))
CAUGHT_UP = Model().caught_up()


def refused(state: BuildState, lane: int, event: Event, kind: type[BackfillError], **changes: Any) -> BackfillError:
    with pytest.raises(kind) as raised:
        apply(state, after(state, lane, event, **changes))
    return raised.value


@pytest.mark.parametrize("seq", [1, 2, 4, 9])
def test_a_sequence_number_follows_the_last_one(seq: int) -> None:
    assert HALF_READ.seq(0) == 2
    error = refused(HALF_READ, 0, Event.MARK, RecordInvalid, seq=seq)
    assert f"seq {seq} follows seq 2" in str(error)


def test_a_record_of_another_build_or_plan_is_refused_with_both() -> None:
    for changes in ({"build": "b2"}, {"plan": "p2"}):
        error = refused(SEALED, 0, Event.MARK, RecordInvalid, **changes)
        assert all(part in str(error) for part in (SEALED.plan.build, SEALED.plan.fingerprint, *changes.values()))


@pytest.mark.parametrize("count", [0, 1, 2, 4])
def test_a_record_has_a_position_for_each_split_and_no_other(count: int) -> None:
    error = refused(SEALED, 0, Event.MARK, RecordInvalid, positions=(Consumed(V),) * count)
    assert f"{count} splits, the plan 3" in str(error)


def test_a_record_of_another_layout_is_refused() -> None:
    refused(HALF_READ, 0, Event.MARK, RecordInvalid, layout=Layout(2, 1))


def test_a_record_that_names_a_wrong_phase_is_refused() -> None:
    refused(HALF_READ, 0, Event.FILES, RecordInvalid, phase=Phase.CONSUME_LOG)


def test_an_event_that_the_phase_does_not_know_is_refused() -> None:
    refused(SEALED, 0, Event.FILES, NotAllowedNow)
    refused(HALF_READ, 0, Event.EPOCHS, NotAllowedNow)


def test_totals_continue_the_last_layouts() -> None:
    refused(SEALED, 0, Event.MARK, RecordInvalid, base=Totals(log_rows=1))


def test_a_record_has_not_seen_the_future() -> None:
    assert SEALED.newest is not None
    refused(SEALED, 0, Event.MARK, RecordInvalid, prev=SEALED.newest.version + 1)


@pytest.mark.parametrize("event", [Event.MARK, Event.SEAL, Event.CANCEL])
def test_only_files_and_epochs_move_a_split(event: Event) -> None:
    moved = (Consumed(V), AtFile(1), AtFile(0))
    kind = RecordInvalid if event is Event.SEAL else PositionRegressed
    phase = {Event.SEAL: Phase.CONSUME_LOG, Event.CANCEL: Phase.CANCELLED}.get(event, Phase.SNAPSHOT)
    refused(BEGUN, 0, event, (kind, PositionRegressed), positions=moved, phase=phase)  # type: ignore[arg-type]


def test_a_position_does_not_go_back() -> None:
    refused(BEGUN, 0, Event.FILES, PositionRegressed, positions=(AtFile(1), AtFile(0), AtFile(0)))


def test_a_split_has_no_more_files_than_the_plan_says() -> None:
    for files in (2, 3, 100):
        refused(BEGUN, 0, Event.FILES, PositionRegressed, positions=(Consumed(V), AtFile(files), AtFile(0)))


@pytest.mark.parametrize("epoch", [V - 1, V + 1])
def test_a_split_is_read_at_the_pinned_epoch_and_no_other(epoch: int) -> None:
    error = refused(BEGUN, 0, Event.FILES, PositionRegressed, positions=(Consumed(V), Consumed(epoch), AtFile(0)))
    assert str(epoch) in str(error)


def test_the_snapshot_is_not_sealed_while_a_split_has_files_left() -> None:
    error = refused(BEGUN, 0, Event.SEAL, RecordInvalid, phase=Phase.CONSUME_LOG, bound=Bound(0, 0))
    assert "all splits stand at one epoch" in str(error)


def test_epochs_follow_the_applied_one_without_a_hole() -> None:
    for epochs, claimed in (
        (EpochRange(9, 10), 9),
        (EpochRange(7, 9), 8),
        (EpochRange(8, 10), 8),
        (EpochRange(8, 9), 9),
        (None, 8),
    ):
        refused(SEALED, 0, Event.EPOCHS, Discontinuous, epochs=epochs, positions=(Consumed(claimed),) * 3)


def test_no_epoch_is_claimed_beyond_the_hand_off() -> None:
    pinned = apply(SEALED, after(SEALED, 0, Event.PIN, phase=Phase.CATCH_UP, handoff=8))
    refused(pinned, 0, Event.EPOCHS, Discontinuous, epochs=EpochRange(8, 10), positions=(Consumed(9),) * 3)
    apply(pinned, after(pinned, 0, Event.EPOCHS, epochs=EpochRange(8, 9), positions=(Consumed(8),) * 3))


def test_the_hand_off_epoch_never_moves() -> None:
    refused(CAUGHT_UP, 0, Event.MARK, RecordInvalid, handoff=V + 1)
    refused(CAUGHT_UP, 0, Event.MARK, RecordInvalid, handoff=None)


def test_the_bound_never_grows() -> None:
    bound = Bound(5, 3)
    sealed = replace(SEALED, newest=replace(SEALED.newest, record=replace(SEALED.newest.record, bound=bound)))  # type: ignore[union-attr, type-var]
    refused(sealed, 0, Event.MARK, RecordInvalid, bound=Bound(5, 4))
    refused(sealed, 0, Event.MARK, RecordInvalid, bound=Bound(6, 3))
    apply(sealed, after(sealed, 0, Event.MARK, bound=Bound(5, 2)))


def test_a_certificate_comes_from_a_verification_only() -> None:
    refused(CAUGHT_UP, 0, Event.MARK, RecordInvalid, certificate=CERTIFICATE)
    certified = apply(CAUGHT_UP, after(CAUGHT_UP, 0, Event.CERTIFY, certificate=CERTIFICATE))
    refused(certified, 0, Event.FINISH, RecordInvalid, phase=Phase.FINISHED, certificate=None)
    other = replace(CERTIFICATE, epoch=V + 1)
    wrong = apply(CAUGHT_UP, after(CAUGHT_UP, 0, Event.CERTIFY, certificate=other))
    refused(wrong, 0, Event.FINISH, RecordInvalid, phase=Phase.FINISHED)


def test_a_finish_stands_at_the_hand_off_epoch() -> None:
    pinned = apply(SEALED, after(SEALED, 0, Event.PIN, phase=Phase.CATCH_UP, handoff=9))
    error = refused(pinned, 0, Event.FINISH, RecordInvalid, phase=Phase.FINISHED)
    assert "finished at 7" in str(error)


def test_an_attempt_writes_only_what_it_has_claimed() -> None:
    for changes in ({"attempt": "zombie"}, {"attempt": "zombie", "generation": 99}, {"generation": 99}):
        error = refused(SEALED, 0, Event.MARK, RecordInvalid, **changes)
        assert "without having claimed" in str(error)


def test_a_claim_takes_over_from_an_older_attempt_only() -> None:
    mine = SEALED.generation(0)
    for generation in (mine - 1, mine):
        refused(SEALED, 0, Event.CLAIM, RecordInvalid, attempt="other", generation=generation)
    taken = apply(SEALED, after(SEALED, 0, Event.CLAIM, attempt="other", generation=mine + 1))
    assert taken.generation(0) == mine + 1


# --- lanes ---


def two_lanes() -> tuple[Model, BuildState]:
    model = Model()
    model.plan(lanes=2)
    for lane in (0, 1):
        model.start(SnapshotTask(lane, 2, SMALL)).until(Write, nth=2)
    return model, model.state()


def test_lanes_move_their_own_splits() -> None:
    _, state = two_lanes()
    assert [state.owns(lane, split) for lane in (0, 1) for split in range(3)] == [True, False, True, False, True, False]
    refused(state, 1, Event.FILES, PositionRegressed, positions=(AtFile(1), AtFile(0), AtFile(0)))
    apply(state, after(state, 1, Event.FILES, positions=(AtFile(0), AtFile(1), AtFile(0))))


def test_a_lane_that_has_not_seen_anothers_progress_does_not_undo_it() -> None:
    _, state = two_lanes()
    forward = apply(state, after(state, 0, Event.FILES, positions=(Consumed(V), AtFile(0), AtFile(1))))
    both = apply(forward, after(forward, 1, Event.FILES, positions=(AtFile(0), AtFile(1), AtFile(0))))
    assert both.positions == (Consumed(V), AtFile(1), AtFile(1))


def test_a_layout_is_closed_lane_by_lane_before_the_next_begins() -> None:
    _, state = two_lanes()
    one = apply(state, after(state, 0, Event.CLOSE, next_lanes=1))
    assert not one.closed
    with pytest.raises(RecordInvalid, match="every lane"):
        opened(one)
    refused(one, 0, Event.MARK, RecordInvalid)
    early = replace(after(one, 1, Event.CLAIM).record, layout=Layout(2, 1), lane=0, seq=1, tails=(-1,))
    with pytest.raises(RecordInvalid, match="belongs to layout"):
        apply(one, Barrier(99, 0, early, 0))
    both = apply(one, after(one, 1, Event.CLOSE, next_lanes=1))
    assert both.closed
    following = opened(both)
    assert (following.layout, following.lanes, following.positions) == (Layout(2, 1), (None,), both.positions)
    assert following.base == both.totals


# --- what resuming refuses ---


def resumed(state: BuildState, **changes: Any) -> BuildState:
    assert state.newest is not None
    barrier = replace(state.newest, record=replace(state.newest.record, **changes))
    return BuildState.resumed(state.plan, (barrier,), state.proven)


MIXED: dict[str, tuple[Position, ...]] = {
    "one split still at its files": (Consumed(8), AtFile(1), Consumed(8)),
    "one split an epoch behind": (Consumed(8), Consumed(7), Consumed(8)),
    "one split inside an epoch": (Consumed(8), InEpoch(8, 1, 2), Consumed(8)),
    "before the pinned epoch": (Consumed(V - 1),) * 3,
}


@pytest.mark.parametrize("phase", [Phase.CONSUME_LOG, Phase.CATCH_UP, Phase.FINISHED, Phase.UPSTREAM])
@pytest.mark.parametrize("positions", list(MIXED.values()), ids=list(MIXED))
def test_after_the_seal_all_splits_stand_together(positions: tuple[Position, ...], phase: Phase) -> None:
    with pytest.raises(RecordInvalid):
        resumed(SEALED, phase=phase, positions=positions)


EDITED: dict[str, tuple[Position, ...]] = {
    "past the pinned epoch": (Consumed(V + 1), AtFile(0), AtFile(0)),
    "before the pinned epoch": (Consumed(V - 1), AtFile(0), AtFile(0)),
    "inside an epoch": (InEpoch(8, 1, 2), AtFile(0), AtFile(0)),
    "more files than there are": (Consumed(V), AtFile(5), AtFile(0)),
    "as many files as there are": (Consumed(V), AtFile(2), AtFile(0)),
}


@pytest.mark.parametrize("phase", [Phase.SNAPSHOT, Phase.CANCELLED])
@pytest.mark.parametrize("positions", list(EDITED.values()), ids=list(EDITED))
def test_before_the_seal_every_split_is_at_a_file_of_its_own_or_at_the_pinned_epoch(
    positions: tuple[Position, ...], phase: Phase
) -> None:
    with pytest.raises(RecordInvalid, match="split"):
        resumed(HALF_READ, phase=phase, positions=positions)


def test_a_build_that_was_cancelled_later_goes_on_from_there() -> None:
    assert resumed(SEALED, phase=Phase.SNAPSHOT, positions=(Consumed(12),) * 3).sealed
    assert resumed(SEALED, phase=Phase.SNAPSHOT, positions=(InEpoch(12, 1, 2),) * 3).sealed


def test_there_is_nothing_to_resume_from_without_a_barrier() -> None:
    with pytest.raises(RecordInvalid):
        BuildState.resumed(SEALED.plan, (None,), 3)


def test_lanes_of_different_layouts_do_not_make_a_state() -> None:
    _, state = two_lanes()
    first, second = state.lanes
    assert first is not None and second is not None
    odd = replace(second, record=replace(second.record, layout=Layout(2, 2)))
    with pytest.raises(RecordInvalid, match="different layouts"):
        BuildState.resumed(state.plan, (first, odd), state.proven)


# --- claims ---


def test_a_build_claims_no_epoch_before_the_last_chunk_and_the_pinned_one_after_it() -> None:
    model = Model()
    model.plan()
    model.run(SnapshotTask(0, 1, RoundSize(100, 1_000)))
    assert [s.applied for s in states(model)] == [None] * len(states(model))
    assert model.run(ConsumeLogTask(ROUND, MaxLag(epochs=9), PATIENCE)).applied == V


@pytest.mark.parametrize("positions", [(Consumed(V), AtFile(1), AtFile(0)), (AtFile(1), Consumed(V), Consumed(V))])
def test_a_cancelled_build_claims_no_epoch_that_it_did_not_reach(positions: tuple[Position, ...]) -> None:
    cancelled = resumed(HALF_READ, phase=Phase.CANCELLED, positions=positions)
    assert (cancelled.applied, cancelled.reached) == (None, V)


def test_an_epoch_in_part_is_not_claimed() -> None:
    state = resumed(SEALED, positions=(InEpoch(9, 2, 3),) * 3)
    assert (state.applied, state.reached) == (8, 8)


# --- a barrier's rows ---


@pytest.mark.parametrize(
    ("metrics", "rows"),
    [
        ({"numOutputRows": 9}, 9),
        ({"numTargetRowsInserted": 1, "numTargetRowsUpdated": 2, "numTargetRowsDeleted": 3, "numOutputRows": 99}, 6),
        ({"numTargetRowsDeleted": 3, "numOutputRows": 99}, 3),
        ({}, 0),
    ],
    ids=["append", "merge", "deletes only", "nothing"],
)
def test_the_rows_of_a_barrier_are_those_that_its_commit_changed(metrics: dict[str, int], rows: int) -> None:
    assert SEALED.newest is not None
    assert Barrier.of(Commit(3, 70, metrics=metrics), SEALED.newest.record).rows == rows


def test_rows_count_where_they_were_changed() -> None:
    assert SEALED.newest is not None
    for event, phase, field in (
        (Event.FILES, Phase.SNAPSHOT, "snapshot_rows"),
        (Event.EPOCHS, Phase.CONSUME_LOG, "log_rows"),
        (Event.EPOCHS, Phase.CATCH_UP, "log_rows"),
        (Event.EPOCHS, Phase.UPSTREAM, "upstream_rows"),
    ):
        record = replace(SEALED.newest.record, event=event, phase=phase, totals=Totals(), work=Totals())
        assert Barrier(3, 0, record, 9).totals == Totals(**{field: 9})
