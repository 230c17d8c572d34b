from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_backfill.core.delta.epochs import lost
from airflow_backfill.core.errors import BackfillError, Discontinuous, FeedOff, HistoryLost, SchemaChanged
from airflow_backfill.core.source.backlog import Backlog
from airflow_backfill.core.source.epoch import Epoch
from airflow_backfill.core.source.view import SourceView
from airflow_backfill.core.splits.position import Consumed, InEpoch, Position
from airflow_backfill.core.state.effect import ApplyEpochs, Nothing
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.state.step import Move, Observed
from airflow_backfill.core.strategies.log import next_epochs
from airflow_backfill.core.values.control import Control
from airflow_backfill.core.values.epoch import EpochRange
from airflow_backfill.core.values.phase import Event
from airflow_backfill.core.values.round_size import RoundSize
from tests.core.model_target import SOURCE_ID, Model

V = 7
SEALED = Model().sealed()
BIG = RoundSize(10**9, 10**9)


def at(position: Position) -> BuildState:
    return replace(SEALED, positions=(position,) * len(SEALED.positions))


def seen(*epochs: Epoch, after: int = V) -> Observed:
    return Observed(0, SourceView(SOURCE_ID, after + len(epochs), after, Backlog(epochs)), Control())


def epochs(*rows: int, after: int = V, size: int = 1) -> list[Epoch]:
    return [Epoch(after + 1 + n, 0, count, size if count else 0) for n, count in enumerate(rows)]


def found(move: Move | None) -> EpochRange:
    assert move is not None
    assert move.epochs is not None
    return move.epochs


@given(st.lists(st.integers(0, 12), max_size=30), st.integers(1, 40), st.integers(1, 40))
def test_the_whole_log_is_applied_in_order_each_epoch_claimed_once(rows: list[int], most: int, size: int) -> None:
    state, pending = at(Consumed(V)), epochs(*rows, size=3)
    claimed: list[int] = []
    applied: dict[int, list[tuple[int, int]]] = {}
    while (move := next_epochs(state, seen(*pending), RoundSize(size, most))) is not None:
        assert state.applied is not None
        taken = found(move)
        assert taken.start == state.applied + 1
        work = move.work
        assert move.positions is not None
        if isinstance(move.positions[0], Consumed):
            claimed += range(taken.start, taken.stop)
        if isinstance(work, ApplyEpochs):
            for number in range(taken.start, taken.stop):
                applied.setdefault(number, []).append((work.bucket, work.of))
        state = replace(state, positions=move.positions)
    assert claimed == [e.number for e in pending]
    assert state.positions[0] == Consumed(V + len(rows))
    for number, parts in applied.items():
        of = parts[0][1]
        assert parts == [(bucket, of) for bucket in range(of)], number
    assert {e.number for e in pending if e.rows} <= set(applied)


@given(st.lists(st.integers(0, 12), min_size=1, max_size=30), st.integers(1, 40), st.integers(1, 40))
def test_a_round_keeps_its_size_unless_one_epoch_alone_is_larger(rows: list[int], most: int, size: int) -> None:
    pending = epochs(*rows, size=3)
    move = next_epochs(at(Consumed(V)), seen(*pending), RoundSize(size, most))
    assert move is not None
    taken = [e for e in pending if e.number in found(move)]
    assert len(taken) == 1 or sum(e.rows for e in taken) <= most
    assert len(taken) == 1 or sum(e.bytes for e in taken) <= size
    assert move.rows <= most


def test_nothing_pending_is_no_round() -> None:
    assert next_epochs(at(Consumed(V)), seen(), BIG) is None
    assert next_epochs(at(Consumed(9)), seen(*epochs(1, 1)), BIG) is None


def test_the_first_epoch_of_the_log_is_the_one_after_the_pinned() -> None:
    move = next_epochs(at(Consumed(V)), seen(*epochs(1, 1, 1)), BIG)
    assert found(move) == EpochRange(V + 1, V + 4)


def test_a_round_stops_at_the_epoch_it_was_told() -> None:
    view = seen(*epochs(1, 1, 1, 1))
    assert found(next_epochs(at(Consumed(V)), view, BIG, upto=9)) == EpochRange(8, 10)
    assert next_epochs(at(Consumed(9)), view, BIG, upto=9) is None
    assert next_epochs(at(Consumed(10)), view, BIG, upto=9) is None


def test_an_epoch_without_rows_is_claimed_by_a_barrier_without_rows() -> None:
    move = next_epochs(at(Consumed(V)), seen(*epochs(0, 0)), BIG)
    assert move is not None
    assert (move.work, move.positions, move.does.log_epochs) == (Nothing(), (Consumed(9),) * 3, 2)


def test_quiet_epochs_ride_along_with_the_others() -> None:
    move = next_epochs(at(Consumed(V)), seen(*epochs(0, 3, 0)), BIG)
    assert move is not None
    assert move.work == ApplyEpochs(EpochRange(8, 11))


def test_an_epoch_with_bytes_is_read_even_if_no_row_is_expected() -> None:
    move = next_epochs(at(Consumed(V)), seen(Epoch(8, 0, 0, 50)), BIG)
    assert move is not None
    assert isinstance(move.work, ApplyEpochs)


def test_an_epoch_moves_all_splits_however_few_it_touches() -> None:
    move = next_epochs(at(Consumed(V)), seen(*epochs(1)), BIG)
    assert move is not None
    assert move.positions == (Consumed(8),) * len(SEALED.positions)


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 7, 9, 10])
def test_a_large_epoch_is_split_by_key_buckets_and_claimed_by_the_last(limit: int) -> None:
    state, view, parts = at(Consumed(V)), seen(*epochs(10, 1)), []
    while state.applied == V and len(parts) < 20:
        move = next_epochs(state, view, RoundSize(10**9, limit))
        assert move is not None
        assert isinstance(move.work, ApplyEpochs)
        parts.append((move.work.bucket, move.work.of))
        assert move.rows <= limit
        assert move.positions is not None
        state = replace(state, positions=move.positions)
        assert isinstance(state.positions[0], Consumed if state.applied == 8 else InEpoch)
    of = -(-10 // limit)
    assert parts == [(bucket, of) for bucket in range(of)]


def test_rows_that_are_only_added_are_not_parted_however_many_there_are() -> None:
    state = at(Consumed(V))
    adding = replace(state, plan=replace(state.plan, spec=replace(state.plan.spec, key=(), strategy="chain")))
    move = next_epochs(adding, seen(*epochs(1000)), RoundSize(1, 1))
    assert move is not None and move.work == ApplyEpochs(EpochRange(V + 1, V + 2))


def test_the_number_of_buckets_is_fixed_by_the_first_part_whatever_the_next_attempt_would_take() -> None:
    state = at(InEpoch(8, 1, 3))
    for size in (RoundSize(1, 1), BIG):
        move = next_epochs(state, seen(*epochs(10, 10)), size)
        assert move is not None
        assert move.work == ApplyEpochs(EpochRange(8, 9), 1, 3)
        assert move.positions == (InEpoch(8, 2, 3),) * 3


def test_only_the_last_part_counts_the_epoch() -> None:
    view = seen(*epochs(10))
    counted = [next_epochs(at(p), view, BIG).does.log_epochs for p in (InEpoch(8, 1, 3), InEpoch(8, 2, 3))]  # type: ignore[union-attr]
    assert counted == [0, 1]


STOPS: list[BackfillError] = [
    SchemaChanged("epoch 9 drops a column", epoch=9),
    FeedOff("epoch 9 switches the feed off", epoch=9),
    HistoryLost("epoch 9 is gone", epoch=9),
]


@pytest.mark.parametrize("error", STOPS, ids=lambda error: error.code)
def test_what_comes_before_a_bad_epoch_is_applied_and_the_bad_one_is_not(error: BackfillError) -> None:
    pending = epochs(1, 1, 1)
    pending[1] = replace(pending[1], stop=error)
    move = next_epochs(at(Consumed(V)), seen(*pending), BIG)
    assert found(move) == EpochRange(8, 9)
    with pytest.raises(type(error)) as raised:
        next_epochs(at(Consumed(8)), seen(*pending), BIG)
    assert raised.value is error


def test_a_hole_in_the_log_is_never_jumped_over() -> None:
    """In the middle, at the tail, or as the very next epoch: nothing later is applied."""
    for gone in (8, 10, 12):
        state, pending = at(Consumed(V)), epochs(1, 1, 1, 1, 1)
        pending[gone - V - 1] = lost(gone)
        with pytest.raises(HistoryLost, match=f"epoch {gone}"):
            while (move := next_epochs(state, seen(*pending), BIG)) is not None:
                assert found(move).stop <= gone
                state = replace(state, positions=move.positions or ())
        assert state.applied == gone - 1


def test_an_epoch_that_is_not_the_next_one_stops_with_both_numbers() -> None:
    with pytest.raises(Discontinuous) as raised:
        next_epochs(at(Consumed(V)), seen(*epochs(1, after=8)), BIG)
    assert raised.value.data == {"applied": 7, "found": 9}


@pytest.mark.parametrize(("n", "begun"), [(n, begun) for n in (0, 1, 5) for begun in (False, True)])
def test_as_many_rounds_as_groups_were_pending_and_one_more_for_a_begun_epoch(n: int, begun: bool) -> None:
    """Each group being one epoch, as large as a round; the begun one has its last part left."""
    state = at(InEpoch(8, 1, 2) if begun else Consumed(V))
    view = seen(*epochs(*[4] * (n + begun)))
    rounds = 0
    while (move := next_epochs(state, view, RoundSize(10**9, 4))) is not None:
        state, rounds = replace(state, positions=move.positions or ()), rounds + 1
    assert rounds == n + begun
    assert state.applied == V + n + begun


def test_epochs_after_the_hand_off_are_counted_as_upstream() -> None:
    model = Model()
    model.write()
    state = model.finished()
    move = next_epochs(state, seen(*epochs(2, after=8), after=8), BIG)
    assert move is not None
    assert move.event is Event.EPOCHS
    assert (move.does.log_epochs, move.does.upstream_epochs) == (0, 1)


# --- how much a round takes up ---


def test_a_round_is_bounded_in_epochs_in_file_actions_and_in_cuts() -> None:
    many = [Epoch(V + 1 + n, 0, 1, 1, files=2, cuts=n % 3 == 0) for n in range(3_000)]
    view = seen(*many)
    for size, taken in (
        (RoundSize(), 48),
        (RoundSize(cuts=10**6), 1_000),
        (RoundSize(cuts=10**6, files=90), 45),
        (RoundSize(files=1), 1),
    ):
        assert len(found(next_epochs(at(Consumed(V)), view, size))) == taken


def test_many_small_epochs_still_make_one_round() -> None:
    many = [Epoch(V + 1 + n, 0, 100, 1_000, files=4) for n in range(64)]
    assert len(found(next_epochs(at(Consumed(V)), seen(*many), RoundSize()))) == 64


def test_a_long_backlog_is_looked_at_once_and_not_once_a_round() -> None:
    class Counting(list[Epoch]):
        looked = 0

        def __getitem__(self, where: Any) -> Any:
            Counting.looked += len(range(*where.indices(len(self)))) if isinstance(where, slice) else 1
            return super().__getitem__(where)

    state, view, rounds = at(Consumed(V)), seen(*epochs(*[1] * 20_000)), 0
    view.source.epochs._epochs = Counting(view.source.epochs._epochs)
    while (move := next_epochs(state, view, RoundSize(epochs=100), upto=V + 20_000)) is not None:
        state, rounds = replace(state, positions=move.positions or ()), rounds + 1
    assert rounds == 200
    assert Counting.looked < 4 * 20_000


def test_an_epoch_of_few_and_large_rows_is_parted_by_their_bytes() -> None:
    large = Epoch(V + 1, 0, 15_000_000, 75 << 30, weight=75 << 30)
    assert next_epochs(at(Consumed(V)), seen(large), RoundSize()).work == ApplyEpochs(EpochRange(8, 9), 0, 38)  # type: ignore[union-attr]
    light = replace(large, weight=1 << 20)
    assert next_epochs(at(Consumed(V)), seen(light), RoundSize()).work == ApplyEpochs(EpochRange(8, 9))  # type: ignore[union-attr]
