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
from airflow_backfill.core.state.effect import ApplyEpochs, Nothing, Work
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


def round_of(state: BuildState, looked: Observed, size: RoundSize = BIG, **upto: int) -> Move:
    move = next_epochs(state, looked, size, **upto)
    assert move is not None
    return move


def found(move: Move) -> EpochRange:
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
    move = round_of(at(Consumed(V)), seen(*pending), RoundSize(size, most))
    taken = [e for e in pending if e.number in found(move)]
    assert len(taken) == 1 or sum(e.rows for e in taken) <= most
    assert len(taken) == 1 or sum(e.bytes for e in taken) <= size
    assert move.rows <= most


@pytest.mark.parametrize(
    ("stands", "pending", "upto", "taken"),
    [
        (V, 0, None, None),
        (9, 2, None, None),
        (V, 3, None, EpochRange(V + 1, V + 4)),
        (V, 4, 9, EpochRange(8, 10)),
        (9, 4, 9, None),
        (10, 4, 9, None),
    ],
)
def test_the_log_begins_after_the_pinned_epoch_and_ends_where_it_was_told(
    stands: int, pending: int, upto: int | None, taken: EpochRange | None
) -> None:
    move = next_epochs(at(Consumed(stands)), seen(*epochs(*[1] * pending)), BIG, upto=upto)
    assert (move and found(move)) == taken


LARGE = Epoch(8, 0, 15_000_000, 75 << 30, weight=75 << 30)


@pytest.mark.parametrize(
    ("pending", "work", "stands"),
    [
        (epochs(0, 0), Nothing(), Consumed(9)),
        (epochs(0, 3, 0), ApplyEpochs(EpochRange(8, 11)), Consumed(10)),
        ([Epoch(8, 0, 0, 50)], ApplyEpochs(EpochRange(8, 9)), Consumed(8)),
        (epochs(1), ApplyEpochs(EpochRange(8, 9)), Consumed(8)),
        ([LARGE], ApplyEpochs(EpochRange(8, 9), 0, 38), InEpoch(8, 1, 38)),
        ([replace(LARGE, weight=1 << 20)], ApplyEpochs(EpochRange(8, 9)), Consumed(8)),
    ],
    ids=["without rows", "quiet ones ride along", "bytes and no rows", "few splits", "few large rows", "light rows"],
)
def test_a_round_reads_what_it_has_to_and_moves_all_splits(pending: list[Epoch], work: Work, stands: Position) -> None:
    move = round_of(at(Consumed(V)), seen(*pending), RoundSize())
    assert (move.work, move.positions) == (work, (stands,) * len(SEALED.positions))
    assert move.does.log_epochs == (len(pending) if isinstance(stands, Consumed) else 0)


def test_rows_that_are_only_added_are_not_parted_however_many_there_are() -> None:
    state = at(Consumed(V))
    adding = replace(state, plan=replace(state.plan, spec=replace(state.plan.spec, key=(), strategy="chain")))
    assert round_of(adding, seen(*epochs(1000)), RoundSize(1, 1)).work == ApplyEpochs(EpochRange(V + 1, V + 2))


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 7, 9, 10])
def test_a_large_epoch_is_split_by_key_buckets_and_claimed_by_the_last(limit: int) -> None:
    state, view, parts = at(Consumed(V)), seen(*epochs(10, 1)), []
    while state.applied == V and len(parts) < 20:
        move = round_of(state, view, RoundSize(10**9, limit))
        assert isinstance(move.work, ApplyEpochs)
        parts.append((move.work.bucket, move.work.of))
        assert move.rows <= limit and move.positions is not None
        state = replace(state, positions=move.positions)
        assert isinstance(state.positions[0], Consumed if state.applied == 8 else InEpoch)
    of = -(-10 // limit)
    assert parts == [(bucket, of) for bucket in range(of)]


@pytest.mark.parametrize("size", [RoundSize(1, 1), BIG], ids=["small", "large"])
def test_the_number_of_buckets_is_fixed_by_the_first_part_whatever_the_next_attempt_would_take(size: RoundSize) -> None:
    """And only the last part counts the epoch."""
    view = seen(*epochs(10, 10))
    for done, stands in ((1, InEpoch(8, 2, 3)), (2, Consumed(8))):
        move = round_of(at(InEpoch(8, done, 3)), view, size)
        assert (move.work, move.positions) == (ApplyEpochs(EpochRange(8, 9), done, 3), (stands,) * 3)
        assert move.does.log_epochs == done - 1


STOPS: list[BackfillError] = [
    SchemaChanged("epoch 9 drops a column", epoch=9),
    FeedOff("epoch 9 switches the feed off", epoch=9),
    HistoryLost("epoch 9 is gone", epoch=9),
]


@pytest.mark.parametrize("error", STOPS, ids=lambda error: error.code)
def test_what_comes_before_a_bad_epoch_is_applied_and_the_bad_one_is_not(error: BackfillError) -> None:
    pending = epochs(1, 1, 1)
    pending[1] = replace(pending[1], stop=error)
    assert found(round_of(at(Consumed(V)), seen(*pending))) == EpochRange(8, 9)
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
    assert rounds == n + begun and state.applied == V + n + begun


def test_epochs_after_the_hand_off_are_counted_as_upstream() -> None:
    model = Model()
    model.write()
    state = model.finished()
    move = round_of(state, seen(*epochs(2, after=8), after=8))
    assert move.event is Event.EPOCHS and (move.does.log_epochs, move.does.upstream_epochs) == (0, 1)


# --- how much a round takes up ---


@pytest.mark.parametrize(
    ("size", "taken"),
    [(RoundSize(), 48), (RoundSize(cuts=10**6), 1_000), (RoundSize(cuts=10**6, files=90), 45),
     (RoundSize(files=1), 1)],
)  # fmt: skip
def test_a_round_is_bounded_in_epochs_in_file_actions_and_in_cuts(size: RoundSize, taken: int) -> None:
    many = [Epoch(V + 1 + n, 0, 1, 1, files=2, cuts=n % 3 == 0) for n in range(3_000)]
    assert len(found(round_of(at(Consumed(V)), seen(*many), size))) == taken


def test_many_small_epochs_still_make_one_round() -> None:
    many = [Epoch(V + 1 + n, 0, 100, 1_000, files=4) for n in range(64)]
    assert len(found(round_of(at(Consumed(V)), seen(*many), RoundSize()))) == 64


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
