from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_backfill.core.errors import HistoryLost
from airflow_backfill.core.source.backlog import Backlog
from airflow_backfill.core.source.epoch import Epoch


def some(first: int, count: int) -> list[Epoch]:
    stop = HistoryLost("gone")
    return [Epoch(n, 0, n % 7, 1, stop if n % 11 == 3 else None) for n in range(first, first + count)]


@given(st.data())
def test_it_is_what_a_tuple_would_be_however_it_is_cut_and_continued(data: st.DataObject) -> None:
    """Earlier ones included: what is shared is never changed under them."""
    made: list[tuple[Backlog, tuple[Epoch, ...]]] = [(Backlog(), ())]
    for _ in range(data.draw(st.integers(1, 12))):
        backlog, model = data.draw(st.sampled_from(made))
        if data.draw(st.booleans()):
            more = some(len(model), data.draw(st.integers(0, 5)))
            made.append((backlog.followed_by(iter(more)), (*model, *more)))
        else:
            ends = st.none() | st.integers(-6, 12)
            cut = slice(data.draw(ends), data.draw(ends))
            made.append((backlog[cut], model[cut]))
    for backlog, model in made:
        assert (tuple(backlog), len(backlog)) == (model, len(model))
        assert backlog.rows == sum(epoch.rows for epoch in model) and backlog == Backlog(model)
        assert backlog.stopping == next((epoch for epoch in model if epoch.stop is not None), None)
        if model:
            assert (backlog[0], backlog[-1]) == (model[0], model[-1])


def test_beyond_its_end_there_is_nothing() -> None:
    part = Backlog(some(0, 9))[2:5]
    with pytest.raises(IndexError):
        part[3]
    with pytest.raises(ValueError, match="consecutive"):
        part[::2]


def test_watching_for_long_copies_and_keeps_little() -> None:
    """A follower's: one epoch comes, one is applied, a hundred are pending, and nothing is kept of the others."""
    backlog = Backlog(some(0, 100))
    shared = [id(backlog._epochs)]
    for number in range(100, 5_000):
        backlog = backlog[1:].followed_by(some(number, 1))
        assert len(backlog) == 100 and len(backlog._epochs) <= 202
        shared.append(id(backlog._epochs))
    assert sum(one != other for one, other in pairwise(shared)) <= 50
