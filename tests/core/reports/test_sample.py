from __future__ import annotations

from airflow_backfill.core.errors import BackfillError
from airflow_backfill.core.reports.sample import SAMPLE_BYTES, SAMPLE_EPOCHS, TOUCHED_BYTES, sampled
from airflow_backfill.core.source.epoch import Epoch
from airflow_backfill.core.values.epoch import EpochRange

TABLE_ROWS = 1_000


def epoch(number: int, rows: int = 10, weight: int = 100, touched: int = 1_000, stops: bool = False) -> Epoch:
    return Epoch(number, number, rows, touched, BackfillError("no") if stops else None, weight)


def sample(*epochs: Epoch, rows: int | None = TABLE_ROWS) -> list[int]:
    return list(sampled(epochs, rows))


def test_the_newest_epochs_are_read() -> None:
    assert sample() == []
    assert sample(epoch(7)) == [7] and sample(epoch(7), epoch(8), epoch(9)) == [7, 8, 9]
    many = [epoch(number) for number in range(3, 3 + 2 * SAMPLE_EPOCHS)]
    assert sampled(many, TABLE_ROWS) == EpochRange(3 + SAMPLE_EPOCHS, 3 + 2 * SAMPLE_EPOCHS)


def test_no_more_is_read_than_a_sample() -> None:
    large = epoch(7, weight=SAMPLE_BYTES)
    assert sample(large, epoch(8), epoch(9)) == [8, 9] and sample(epoch(6), large) == [7]
    assert sample(epoch(6), epoch(7, weight=SAMPLE_BYTES + 1)) == []
    assert sample(epoch(7, touched=TOUCHED_BYTES), epoch(8), epoch(9)) == [8, 9]


def test_nothing_is_read_that_stops_a_build() -> None:
    assert sample(epoch(6), epoch(7, stops=True), epoch(8)) == [8] and sample(epoch(7, stops=True)) == []


def test_an_initial_load_says_nothing_about_changes() -> None:
    load = epoch(0, rows=TABLE_ROWS // 2)
    assert sample(load) == []
    assert sample(load, epoch(1)) == [1], "better than nothing"
    assert sample(load, epoch(1), epoch(2), epoch(3)) == [2, 3], "files had no deletion vectors before the first one"
    assert sample(load, epoch(1), rows=None) == [0, 1], "how many rows the table has is not known"
