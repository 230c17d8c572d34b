from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_backfill.core.attempts.goals import ConsumeLogGoal, SnapshotGoal
from airflow_backfill.core.gates.max_lag import MaxLag
from airflow_backfill.core.splits.files import AtFile
from airflow_backfill.core.splits.position import Consumed, InEpoch, Position
from airflow_backfill.core.state.replay import apply, from_last
from airflow_backfill.core.state.state import Barrier
from airflow_backfill.core.values.commit import Commit
from airflow_backfill.core.values.phase import Event, Phase
from airflow_backfill.core.values.round_size import RoundSize
from airflow_backfill.core.values.totals import Totals
from tests.core.histories import HALF_READ, SEALED, SEEDS, after, barriers, random_build, resumed, states
from tests.core.model_target import PATIENCE, ROUND, Model
from tests.core.states import V


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
    for last, now in pairwise(states(random_build(seed))):
        assert all(b.rank >= a.rank for a, b in zip(last.positions, now.positions, strict=True))
        assert last.reached <= now.reached
        gained = (getattr(now.totals, f) - getattr(last.totals, f) for f in Totals.__slots__)
        assert all(n >= 0 for n in gained)


@given(SEEDS)
def test_the_last_records_alone_are_the_whole_state(seed: int) -> None:
    """Whatever was committed before the last barrier of each lane may be gone from the log."""
    for state in states(random_build(seed)):
        if state.newest is None:
            continue
        again = from_last(state.plan, state.lanes, state.proven)
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


# --- claims ---


def test_a_build_claims_no_epoch_before_the_last_chunk_and_the_pinned_one_after_it() -> None:
    model = Model()
    model.plan()
    model.run(SnapshotGoal(0, 1, RoundSize(100, 1_000)))
    assert [s.applied for s in states(model)] == [None] * len(states(model))
    assert model.run(ConsumeLogGoal(ROUND, MaxLag(epochs=9), PATIENCE)).applied == V


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
