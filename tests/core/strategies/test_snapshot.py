from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_backfill.core.errors import InvalidSpec
from airflow_backfill.core.model.record import Layout
from airflow_backfill.core.splits.files import AtFile, FileSplits
from airflow_backfill.core.splits.position import Consumed, Position
from airflow_backfill.core.state.effect import AppendFiles, FileSize, Nothing
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.state.step import Move
from airflow_backfill.core.strategies.snapshot import next_files
from airflow_backfill.core.values.control import Control
from airflow_backfill.core.values.phase import Event
from airflow_backfill.core.values.round_size import RoundSize
from tests.core.model_target import Model

SIZES = st.lists(st.builds(FileSize, st.integers(0, 500), st.integers(0, 50)), max_size=25)
ROUNDS = st.builds(RoundSize, st.integers(1, 1_500), st.integers(1, 150))


def planned(files: list[FileSize], splits: int = 4, lanes: int = 1) -> BuildState:
    return BuildState.planned(Model(files, splits=splits).draft(lanes))


def moved(state: BuildState, move: Move) -> BuildState:
    assert move.positions is not None
    return replace(state, positions=move.positions)


def round_of(state: BuildState, files: list[FileSize], size: RoundSize, lane: int = 0) -> Move:
    move = next_files(state, lane, files, size)
    assert move is not None
    return move


def runs(move: Move) -> list[tuple[int, int]]:
    return list(move.work.runs) if isinstance(move.work, AppendFiles) else []


@given(SIZES, st.integers(1, 6), st.integers(1, 3), ROUNDS, st.randoms())
def test_all_files_are_read_exactly_once_whoever_goes_first(
    files: list[FileSize], splits: int, lanes: int, size: RoundSize, rng: object
) -> None:
    state = planned(files, splits, lanes)
    read: list[int] = []
    busy = list(range(lanes))
    while busy:
        lane = rng.choice(busy)  # type: ignore[attr-defined]
        move = next_files(state, lane, files, size)
        if move is None:
            busy.remove(lane)
            continue
        read += [n for first, stop in runs(move) for n in range(first, stop)]
        state = moved(state, move)
    assert sorted(read) == list(range(len(files)))
    assert state.positions == (Consumed(7),) * len(state.positions) and state.sealed


@given(SIZES, st.integers(1, 6), ROUNDS)
def test_a_round_exceeds_its_size_by_less_than_one_file(files: list[FileSize], splits: int, size: RoundSize) -> None:
    state = planned(files, splits)
    while (move := next_files(state, 0, files, size)) is not None:
        taken = [files[n] for first, stop in runs(move) for n in range(first, stop)]
        assert sum(f.bytes for f in taken[:-1]) < size.bytes
        assert sum(f.rows or 0 for f in taken[:-1]) < size.rows
        assert move.rows == sum(f.rows or 0 for f in taken)
        assert move.does.snapshot_bytes == sum(f.bytes for f in taken)
        assert move.does.snapshot_files == len(taken)
        state = moved(state, move)


@given(SIZES, st.integers(1, 6), ROUNDS)
def test_every_round_but_those_of_empty_files_moves(files: list[FileSize], splits: int, size: RoundSize) -> None:
    state, rounds = planned(files, splits), 0
    while (move := next_files(state, 0, files, size)) is not None:
        assert move.event is Event.FILES and move.positions != state.positions
        state, rounds = moved(state, move), rounds + 1
        assert rounds <= len(files) + 1


@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(1, 12))
def test_a_read_that_was_killed_after_some_rounds_reads_exactly_the_rest(rows: list[int], kill: int) -> None:
    files = [FileSize(1, n) for n in rows]
    size = RoundSize(1, 100)
    state, read = planned(files), []
    for _ in range(kill):
        move = next_files(state, 0, files, size)
        if move is None:
            break
        read += runs(move)
        state = moved(state, move)
    rest = replace(BuildState.planned(state.plan), positions=state.positions)
    while (move := next_files(rest, 0, files, size)) is not None:
        read += runs(move)
        rest = moved(rest, move)
    assert read == [(n, n + 1) for n in range(len(files))]


@pytest.mark.parametrize(("count", "rounds"), [(0, [0]), (1, [1]), (4, [4]), (5, [4, 1])])
def test_the_last_round_holds_what_is_left(count: int, rounds: list[int]) -> None:
    """A source with no rows has no round with rows, and one that consumes its empty split."""
    files = [FileSize(1, 1)] * count
    state, found = planned(files, splits=1), []
    while (move := next_files(state, 0, files, RoundSize(4, 100))) is not None:
        found.append(move.rows)
        assert isinstance(move.work, AppendFiles if move.rows else Nothing)
        state = moved(state, move)
    assert found == rounds
    assert state.sealed


SIX = [FileSize(100, 10)] * 6


def test_a_split_is_consumed_in_the_round_that_holds_its_last_file() -> None:
    files = [FileSize(10, 1)] + [FileSize(1, 1)] * 10
    state = planned(files, splits=2)
    assert state.plan.splits.borders == (0, 1, 11)
    move = round_of(state, files, RoundSize(12, 100))
    assert move.positions == (Consumed(7), AtFile(2))
    assert runs(round_of(moved(state, move), files, RoundSize(12, 100))) == [(3, 11)]


@pytest.mark.parametrize(
    ("splits", "size", "taken", "positions"),
    [
        (1, 250, [(0, 3)], (AtFile(3),)),
        (3, 500, [(0, 2), (2, 4), (4, 5)], (Consumed(7), Consumed(7), AtFile(1))),
    ],
    ids=["it ends inside a split", "it holds files of several"],
)
def test_a_round_says_which_files_of_which_splits_are_in(
    splits: int, size: int, taken: list[tuple[int, int]], positions: tuple[Position, ...]
) -> None:
    move = round_of(planned(SIX, splits=splits), SIX, RoundSize(size, 1_000))
    assert (runs(move), move.positions) == (taken, positions)


def test_a_lane_reads_its_own_splits_only() -> None:
    state = planned(SIX, splits=3, lanes=2)
    assert state.layout == Layout(1, 2)
    for lane, expected in ((0, [(0, 2), (4, 6)]), (1, [(2, 4)])):
        assert runs(round_of(state, SIX, RoundSize(10_000, 10_000), lane)) == expected
    assert next_files(planned(SIX[:1], splits=1, lanes=3), 2, SIX[:1], RoundSize(1, 1)) is None


def test_finding_the_next_round_does_not_take_longer_with_more_splits() -> None:
    """A round looks at its own files, not at all: ten thousand splits make no more of them."""
    files = [FileSize(1, 1)] * 10_000
    state = replace(planned([FileSize(1, 1)]), positions=(AtFile(0),) * 10_000)
    splits = FileSplits(tuple(range(10_001)), 10_000, 10_000, "d")
    state = replace(state, plan=replace(state.plan, splits=splits))

    class Counted(list[FileSize]):
        looked_at = 0

        def __getitem__(self, n: int) -> FileSize:  # type: ignore[override]
            Counted.looked_at += 1
            return super().__getitem__(n)

    round_of(state, Counted(files), RoundSize(5, 100))
    assert Counted.looked_at <= 10


@pytest.mark.parametrize("splits", [1, 7, 100, 1_000])
def test_the_rounds_are_those_of_the_files_however_many_splits_there_are(splits: int) -> None:
    files = [FileSize(1, 1)] * 1_000
    state, rounds = planned(files, splits=splits), 0
    while (move := next_files(state, 0, files, RoundSize(100, 100))) is not None:
        state, rounds = moved(state, move), rounds + 1
    assert (len(state.positions), rounds) == (splits, 10)


def test_a_file_without_a_count_is_not_taken_for_one_without_rows() -> None:
    """Else a throttle would let any number of them through."""
    files = [FileSize(1_000_000, None)] * 5
    move = round_of(planned(files), files, RoundSize(10**9, 100).limited(Control(rate=10)))
    assert runs(move) == [(0, 1)] and move.rows >= 1_000


@pytest.mark.parametrize("value", [0, -1, True, 1.5, "8", None, float("nan")], ids=repr)
@pytest.mark.parametrize("field", ["bytes", "rows"])
def test_a_round_has_a_size_of_at_least_one(field: str, value: object) -> None:
    with pytest.raises(InvalidSpec, match=f"round_{field}"):
        RoundSize(**{"bytes": 1, "rows": 1, field: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(("rate", "units"), [(None, 1_000), (0, 1_000), (1, 5), (100, 500), (10**6, 1_000)])
def test_a_throttle_cuts_rounds_to_what_it_lets_through_in_five_seconds(rate: int | None, units: int) -> None:
    assert RoundSize(77, 1_000).limited(Control(rate=rate)) == RoundSize(77, units)
    assert RoundSize(1_000, 77).limited(Control(byte_rate=rate)) == RoundSize(units, 77)
