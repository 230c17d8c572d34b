from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_backfill.core.attempts.goals import SnapshotGoal
from airflow_backfill.core.errors import (
    BackfillError,
    Discontinuous,
    PositionRegressed,
    RecordInvalid,
    TargetDiverged,
)
from airflow_backfill.core.model.record import Layout
from airflow_backfill.core.splits.files import AtFile
from airflow_backfill.core.splits.position import Consumed, InEpoch, Position
from airflow_backfill.core.state.effect import CommitRecord
from airflow_backfill.core.state.replay import apply, from_last, opened
from airflow_backfill.core.state.state import Barrier, BuildState
from airflow_backfill.core.values.bound import Bound
from airflow_backfill.core.values.epoch import EpochRange
from airflow_backfill.core.values.phase import Event, Phase
from airflow_backfill.core.values.totals import Totals
from tests.core.histories import BEGUN, CAUGHT_UP, HALF_READ, SEALED, SMALL, after, resumed
from tests.core.model_target import Model
from tests.core.states import CERTIFICATE, V

# --- what apply refuses ---


def refused(state: BuildState, lane: int, event: Event, kind: type[BackfillError], **changes: Any) -> BackfillError:
    with pytest.raises(kind) as raised:
        apply(state, (barrier := after(state, lane, event, **changes)))
    assert kind is TargetDiverged or f"version {barrier.version} of the target" in raised.value.message
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
    assert f"{count} splits, but the plan has 3" in str(error)


def test_a_record_of_another_layout_is_refused() -> None:
    refused(HALF_READ, 0, Event.MARK, RecordInvalid, layout=Layout(2, 1))


def test_a_record_that_names_a_wrong_phase_is_refused() -> None:
    refused(HALF_READ, 0, Event.FILES, RecordInvalid, phase=Phase.CONSUME_LOG)


def test_an_event_that_the_phase_does_not_know_is_refused() -> None:
    refused(SEALED, 0, Event.FILES, RecordInvalid)
    refused(HALF_READ, 0, Event.EPOCHS, RecordInvalid)


def test_totals_continue_the_last_layouts() -> None:
    refused(SEALED, 0, Event.MARK, RecordInvalid, base=Totals(log_rows=1))


def test_a_record_has_not_seen_the_future() -> None:
    assert SEALED.newest is not None
    refused(SEALED, 0, Event.MARK, TargetDiverged, prev=SEALED.newest.version + 1)


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
    assert "all splits must stand at one epoch" in str(error)


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
        assert "did not claim" in str(error)


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
        model.start(SnapshotGoal(lane, 2, SMALL)).until(CommitRecord, nth=2)
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
    one = apply(state, after(state, 0, Event.CLOSE, next_lanes=1, decided_by=1))
    assert not one.closed
    with pytest.raises(RecordInvalid, match="every lane"):
        opened(one)
    refused(one, 0, Event.MARK, RecordInvalid)
    early = replace(after(one, 1, Event.CLAIM).record, layout=Layout(2, 1), lane=0, seq=1, tails=(-1,))
    with pytest.raises(RecordInvalid, match="belongs to layout"):
        apply(one, Barrier(99, 0, early, 0))
    both = apply(one, after(one, 1, Event.CLOSE, next_lanes=1, decided_by=1))
    assert both.closed
    following = opened(both)
    assert (following.layout, following.lanes, following.positions) == (Layout(2, 1), (None,), both.positions)
    assert following.base == both.totals


# --- what resuming refuses ---


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
        from_last(SEALED.plan, (None,), 3)


def test_lanes_of_different_layouts_do_not_make_a_state() -> None:
    _, state = two_lanes()
    first, second = state.lanes
    assert first is not None and second is not None
    odd = replace(second, record=replace(second.record, layout=Layout(2, 2)))
    with pytest.raises(RecordInvalid, match="different layouts"):
        from_last(state.plan, (first, odd), state.proven)
