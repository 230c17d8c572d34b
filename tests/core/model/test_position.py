from __future__ import annotations

import json
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_backfill.core.errors import PositionRegressed, RecordInvalid
from airflow_backfill.core.kafka.split import Split
from airflow_backfill.core.splits.files import AtFile, FileSplits
from airflow_backfill.core.splits.kinds import position_from_json
from airflow_backfill.core.splits.partitions import AtOffset, Partitions
from airflow_backfill.core.splits.position import Consumed, InEpoch, Position, check_successor, later
from airflow_backfill.core.splits.ranges import AtKey, KeyRanges
from airflow_backfill.core.splits.splits import Splits

PARTS = tuple((done, of) for of in (2, 3, 4) for done in range(1, of))
SMALL: tuple[Position, ...] = (
    *(AtFile(n) for n in range(4)),
    *(Consumed(e) for e in range(4)),
    *(InEpoch(e, done, of) for e in range(1, 4) for done, of in PARTS),
    *(AtKey(e, n, (f"{n}L",) if n else ()) for e in range(3) for n in range(3)),
    AtKey(1, 2, ("1L",)),
)
COUNTS = st.integers(0, 10**9)
POSITIONS = st.one_of(
    st.builds(AtFile, COUNTS),
    st.builds(Consumed, COUNTS),
    st.builds(AtKey, COUNTS, st.just(0)),
    st.builds(AtKey, COUNTS, st.integers(1, 10**9), st.lists(st.text(min_size=1), min_size=1).map(tuple)),
    st.integers(2, 1000).flatmap(lambda of: st.builds(InEpoch, COUNTS, st.integers(1, of - 1), st.just(of))),
)


def may_follow(before: Position, after: Position) -> bool:
    """The rules in words, written without ranks: the partial order of S003.20, and the parts of an epoch."""
    match before, after:
        case AtFile(a), AtFile(b):
            return b >= a
        case AtFile(), Consumed():
            return True
        case AtKey(e, n, key), AtKey(f, m, further):
            return f >= e and ((m == n and further == key) or (m == n + 1 and further != key))
        case AtKey(e), Consumed(f):
            return f >= e
        case Consumed(e), Consumed(f):
            return f >= e
        case Consumed(e), InEpoch(f, _, _):
            return f > e
        case InEpoch(e, done, of), InEpoch(f, done2, of2):
            return e == f and of == of2 and done2 >= done
        case InEpoch(e, _, _), Consumed(f):
            return e == f
    return False


@pytest.mark.parametrize("before", SMALL, ids=str)
def test_the_legal_successors_are_exactly_these(before: Position) -> None:
    for after in SMALL:
        if may_follow(before, after):
            check_successor(3, before, after)
        else:
            with pytest.raises(PositionRegressed, match="split 3") as raised:
                check_successor(3, before, after)
            assert raised.value.data == {"split": 3, "before": before.to_json(), "after": after.to_json()}


def test_progress_never_comes_back() -> None:
    """No chain of legal steps leads from a position to a smaller one."""
    reachable = {p: {p} for p in SMALL}
    for middle, start, end in product(SMALL, repeat=3):
        if middle in reachable[start] and may_follow(middle, end):
            reachable[start].add(end)
    for start, ends in reachable.items():
        assert all(end.rank >= start.rank for end in ends)


def test_a_split_cannot_leave_the_snapshot_half_read() -> None:
    for after in (InEpoch(8, 1, 2), InEpoch(0, 1, 2)):
        with pytest.raises(PositionRegressed):
            check_successor(0, AtFile(5), after)


@pytest.mark.parametrize("position", SMALL, ids=str)
def test_standing_still_is_no_step(position: Position) -> None:
    check_successor(0, position, position)
    assert later(position, position) is position


@given(POSITIONS, POSITIONS)
def test_the_later_position_is_the_same_whoever_asks(one: Position, other: Position) -> None:
    assert later(one, other).rank == later(other, one).rank == max(one.rank, other.rank)


@given(POSITIONS)
def test_a_position_survives_its_json(position: Position) -> None:
    read = position_from_json(json.loads(json.dumps(position.to_json())))
    assert read == position and type(read) is type(position)


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, -1, 1.0, "1", {}, [], [1], {"x": 1}, {"state": "waiting ", "epoch": 1}),
        *({"files": files} for files in (-1, True, "1", None, 1.0)),
        *({"epoch": epoch} for epoch in (-1, True, "1", None, 1.0, [1])),
        {"files": 1, "epoch": 1},
        {"epoch": 1, "parts": 2},
        *({"epoch": 1, "parts_done": d, "parts": of} for d, of in ((0, 2), (2, 2), (3, 2), (1, 1), (-1, 2), (True, 2))),
        *({"epoch": e, "parts_done": 1, "parts": 2} for e in (-1, True, 1.0)),
        {"epoch": 1, "parts_done": 1, "parts": 2, "more": 3},
        *({"epoch": 1, "chunks": n, "key": key} for n, key in ((1, []), (0, ["1"]), (1, [""]), (1, [1]), (-1, ["1"]))),
    ],
    ids=repr,
)  # fmt: skip
def test_what_is_no_position_is_refused(value: object) -> None:
    with pytest.raises(RecordInvalid, match="not a position"):
        position_from_json(value)


@pytest.mark.parametrize(
    ("splits", "positions", "shares", "counts"),
    [
        (FileSplits((0, 4, 6), 100, None, "d"), (AtFile(1), Consumed(3)), [0.25, 1.0], [(1, 3), (2, 0)]),
        (FileSplits((0, 0), 0, 0, "d"), (AtFile(0),), [0.0], [(0, 0)]),
        (FileSplits((0, 0), 0, 0, "d", (0,)), (AtFile(0),), [0.0], [(0, 0, 0)]),
        (FileSplits((0, 4, 6), 100, 9, "d", (2, 7)), (AtFile(1), Consumed(3)), [0.25, 1.0], [(1, 3, 2), (2, 0, 7)]),
        (
            KeyRanges((("1",), ("2",)), 100, None),
            (AtKey(3, 0), AtKey(3, 2, ("1",)), Consumed(3)),
            [0.0, 0.5, 1.0],
            [(0,), (2,), ()],
        ),
        (
            KeyRanges((("1",), ("2",)), 100, 10),
            (AtKey(3, 0), AtKey(3, 2, ("1",)), Consumed(3)),
            [0.0, 0.5, 1.0],
            [(0, 3), (2, 3), (4,)],
        ),
        (
            Partitions("t", (Split(0), Split(1)), "r"),
            (AtOffset(3, Split(0, target=9, read=6, written=5, scanned=5, end=12)), AtOffset(3, Split(1).finished())),
            [0.5, 1.0],
            [(6, 5, 4), (0, 0, 0)],
        ),
    ],
)
def test_how_much_of_a_split_is_read(
    splits: Splits, positions: tuple[Position, ...], shares: list[float], counts: list[tuple[int, ...]]
) -> None:
    assert [splits.share(split, position) for split, position in enumerate(positions)] == shares
    assert [tuple(splits.counts(split, position).values()) for split, position in enumerate(positions)] == counts


def test_the_rows_of_a_key_range_are_an_estimate() -> None:
    ranges = KeyRanges((("1",), ("2",)), 100, 10)
    assert ranges.counts(1, AtKey(3, 2, ("1",))) == {"chunks read": 2, "rows being read (about)": 3}
    assert ranges.counts(2, Consumed(3)) == {"rows read (about)": 4}
