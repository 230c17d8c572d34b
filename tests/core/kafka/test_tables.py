"""The tables of docs/behaviours/source.md, literally: every pair of state and event, and no other."""

from __future__ import annotations

import random
from itertools import product

import pytest

from airflow_backfill.core.errors import BackfillError
from airflow_backfill.core.kafka.batches import Stop, backfilled_batch, upstream_batch
from airflow_backfill.core.kafka.offsets import Batch, Offsets
from airflow_backfill.core.kafka.opening import Log, appeared, asked, opened, reopened
from airflow_backfill.core.kafka.scan import after_read, after_upstream, next_range
from airflow_backfill.core.kafka.split import Split
from airflow_backfill.core.kafka.state import Backfilling, CatchingUp, Finished, State, rank
from airflow_backfill.core.values.epoch import EpochRange
from tests.core.kafka.record_by_record import backfilled_row, upstream_row

VERSIONS = EpochRange(41, 42)
B, C, F = Backfilling, CatchingUp, Finished

# row, state before, offset of the row, visible, state after, t after. Before: t = 999, n = 6.
UPSTREAM = [
    ("U1", B(None), 4, False, B(None), 4),
    ("U1", B(None), 5, False, B(None), 5),
    ("U1", B(None), 6, False, B(None), 6),
    ("U2", B(5), 6, False, B(5), 6),
    ("U3", B(5), 5, False, F(), 999),
    ("U4", B(5), 4, False, C(5), 999),
    ("U5", C(5), 6, True, F(), 999),
    ("U6", C(5), 5, False, F(), 999),
    ("U7", C(5), 4, False, C(5), 999),
    ("U8", F(), 4, True, F(), 999),
    ("U8", F(), 5, True, F(), 999),
    ("U8", F(), 6, True, F(), 999),
]

# row, state before, t, offset of the record, visible, state after.
BACKFILLED = [
    ("K1", B(None), None, 8, True, B(8)),
    ("K1", B(5), None, 8, True, B(8)),
    ("K2", B(None), 9, 8, True, B(8)),
    ("K2", B(5), 9, 8, True, B(8)),
    ("K3", B(None), 8, 8, True, C(8)),
    ("K3", B(5), 8, 8, True, C(8)),
    ("K4", B(None), 7, 8, True, C(8)),
    ("K4", B(5), 7, 8, True, C(8)),
    *(("K5", C(5), t, 8, False, C(5)) for t in (None, 9, 8, 7)),
    *(("K6", F(), t, 8, False, F()) for t in (None, 9, 8, 7)),
]


def before(state: State, target: int | None) -> Split:
    """A split with six rows read, or with none if it has backfilled none."""
    read = 0 if state == B(None) else 6
    return Split(3, state, target, read=read, written=read, scanned=5, cut=5 if rank(state) else None)


@pytest.mark.parametrize(("name", "state", "u", "visible", "after", "t"), UPSTREAM)
def test_a_row_of_the_landing_table(name: str, state: State, u: int, visible: bool, after: State, t: int) -> None:
    split = before(state, 999)
    moved, seen = upstream_row(split, u)
    assert (seen, moved.state, moved.target, moved.read, moved.written) == (visible, after, t, split.read, split.read)
    as_set, offsets = upstream_batch(split, Batch(u, u, 1), VERSIONS)
    assert as_set == moved
    assert offsets == (Offsets(u, u + 1) if visible else None)


@pytest.mark.parametrize(("name", "state", "t", "k", "visible", "after"), BACKFILLED)
def test_a_backfilled_row(name: str, state: State, t: int | None, k: int, visible: bool, after: State) -> None:
    split = before(state, t)
    moved, seen = backfilled_row(split, k)
    assert (seen, moved.state, moved.target) == (visible, after, t)
    assert (moved.read, moved.written) == (split.read + 1, split.read + visible)
    stops = isinstance(state, Backfilling) and t is not None and k >= t
    as_set, offsets = backfilled_batch(split, Batch(k, k, 1), Stop(k, 1) if stops else None)
    assert as_set == moved
    assert offsets == (Offsets(k, k + 1) if visible else None)


def test_the_tables_hold_every_pair() -> None:
    states = [B(None), B(5), C(5), F()]
    assert sorted((repr(row[1]), row[2]) for row in UPSTREAM) == sorted(
        (repr(state), u) for state, u in product(states, (4, 5, 6))
    )
    assert {row[0] for row in UPSTREAM} == {f"U{n}" for n in range(1, 9)}
    assert {(repr(row[1]), row[2]) for row in BACKFILLED} == {(repr(s), t) for s, t in product(states, (None, 9, 8, 7))}
    assert {row[0] for row in BACKFILLED} == {f"K{n}" for n in range(1, 7)}


@pytest.mark.parametrize("name", ["S3", "S4", "S5", "S6"])
@pytest.mark.parametrize("state", [B(None), B(5), C(5), F()], ids=str)
def test_opening_a_reader(name: str, state: State) -> None:
    """S3 and S4 as the first opening of a split, S4 and S6 of one that exists; with S5 nothing is called at all."""
    if name == "S3":
        assert opened(3, Log(7, 7), None, None).state == F()
        assert opened(3, Log(0, 0), None, None).target is None
    if name in ("S3", "S5"):
        return
    split = before(state, 999)
    if name == "S6":
        assert asked(split, Log(0, 5001)).target == 999 and asked(split, Log(0, 5001)).end == 5001
        return
    again = reopened(split, Log(0, 5001))
    assert again.target == (5000 if isinstance(state, Backfilling) else 999)
    assert (again.state, again.read) == (split.state, split.read)
    assert opened(3, Log(0, 5001), None, None) == Split(3, B(None), 5000, end=5001)


def test_a_split_that_nobody_has_stored() -> None:
    """S9, which holds only if it is proven; S2 otherwise."""
    assert appeared(3, Log(0, 4), None, 0).state == F()
    assert appeared(3, Log(0, 10), None, 5).state == B(None)
    assert Split(3) == Split(3, B(None), None, 0, 0)


def test_ranks_rise_in_this_order() -> None:
    assert [rank(state) for state in (B(None), B(7), C(3), F())] == [0, 0, 1, 2]


def anything(split: Split, rng: random.Random) -> Split:
    """The split after any event, legal or not."""
    low = rng.randrange(60)
    high = low + rng.randrange(9)
    rows = Batch(low, high, 1 if high == low else rng.randint(2, high - low + 1))
    match rng.randrange(6):
        case 0:
            return upstream_row(split, low)[0]
        case 1:
            return backfilled_row(split, low)[0]
        case 2:
            return after_upstream(split, rows, VERSIONS)[0]
        case 3:
            return after_read(split, next_range(split, 5) or Offsets(low, high + 1), None)[0]
        case 4:
            return asked(split, Log(0, 70))
        case _:
            return reopened(split, Log(0, 70))


def test_the_rank_of_a_split_never_falls() -> None:
    for seed in range(1_000):
        rng = random.Random(seed)
        split = opened(0, Log(rng.randrange(3), rng.randrange(6, 40)), None, rng.choice([None, 3, 5]))
        for _ in range(30):
            was = split
            try:
                split = anything(split, rng)
            except BackfillError:
                continue
            assert rank(split.state) >= rank(was.state)
            assert split.read >= was.read and split.written >= was.written and split.scanned >= was.scanned
