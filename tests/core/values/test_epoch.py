from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_backfill.core.values.epoch import EpochRange

EPOCHS = st.integers(0, 10**6)


@given(EPOCHS, EPOCHS)
def test_a_range_is_half_open(start: int, length: int) -> None:
    epochs = EpochRange(start, start + length)
    assert len(epochs) == length and start - 1 not in epochs
    assert epochs.stop not in epochs
    if length:
        assert start in epochs and epochs.last in epochs
        assert epochs.last == epochs.stop - 1


def test_an_empty_range_has_no_last_epoch() -> None:
    with pytest.raises(ValueError, match="empty"):
        _ = EpochRange(4, 4).last


@pytest.mark.parametrize(("start", "stop"), [(-1, 0), (-2, -1), (3, 2)])
def test_what_is_no_range_is_refused(start: int, stop: int) -> None:
    with pytest.raises(ValueError, match="not a range"):
        EpochRange(start, stop)


@given(EPOCHS, EPOCHS)
def test_what_comes_after_an_epoch_neither_overlaps_nor_leaves_a_gap(applied: int, through: int) -> None:
    after = EpochRange.after(applied, through)
    assert after.start == applied + 1 and applied not in after
    assert len(after) == max(through - applied, 0) and (not len(after) or after.last == through)
