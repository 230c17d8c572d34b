"""Ranges with holes, and the refusals of offsets that do not rise."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_backfill.core.errors import OffsetsInvalid
from airflow_backfill.core.kafka.batches import Stop, backfilled_batch, upstream_batch
from airflow_backfill.core.kafka.offsets import Batch, Offsets
from airflow_backfill.core.kafka.opening import Log, asked, opened
from airflow_backfill.core.kafka.scan import (
    after_read,
    after_upstream,
    landed_through,
    next_range,
    settled,
    settled_alone,
)
from airflow_backfill.core.kafka.split import Split
from airflow_backfill.core.kafka.state import Backfilling, CatchingUp, Finished
from airflow_backfill.core.values.epoch import EpochRange
from tests.core.kafka.record_by_record import backfilled_row, upstream_row

VERSIONS = EpochRange(41, 44)
B, C, F = Backfilling, CatchingUp, Finished
B99 = Split(2, B(99), 999, read=100, written=100, scanned=99, end=1000)
C301 = Split(2, C(301), 301, read=302, written=302, scanned=301, end=400, cut=301)


@pytest.mark.parametrize(
    ("split", "quota", "offsets"),
    [
        (B99, 100, Offsets(100, 200)),
        (B99, 1, Offsets(100, 101)),
        (B99, 5000, Offsets(100, 1000)),
        (B99, 0, None),
        (replace(B99, target=300), 5000, Offsets(100, 301)),
        (replace(B99, target=300, scanned=250), 5000, Offsets(251, 301)),
        (replace(B99, target=5000), 5000, Offsets(100, 1000)),
        (replace(B99, target=None), 5000, Offsets(100, 1000)),
        (replace(B99, target=150, scanned=199), 100, None),
        (C301, 100, None),
        (replace(C301, state=F()), 100, None),
        (Split(2), 100, None),
    ],
)
def test_what_is_read_next(split: Split, quota: int, offsets: Offsets | None) -> None:
    assert next_range(split, quota) == offsets


@pytest.mark.parametrize(
    ("offsets", "visible", "state"),
    [((290,), None, C(301)), ((301,), None, F()), ((290, 305), Offsets(302, 306), F()),
     ((302,), Offsets(302, 303), F()), ((400,), Offsets(400, 401), F())],
)  # fmt: skip
def test_catching_up(offsets: tuple[int, ...], visible: Offsets | None, state: object) -> None:
    split, seen = after_upstream(C301, Batch(offsets[0], offsets[-1], len(offsets)), VERSIONS)
    assert (split.state, seen) == (state, visible)


def test_the_target_follows_the_landing_table_down() -> None:
    split, _ = after_upstream(B99, Batch(300, 300, 1), VERSIONS)
    assert (split.target, split.credit) == (300, 300)


def test_a_lagging_landing_table_takes_over() -> None:
    split, visible = after_upstream(B99, Batch(50, 50, 1), VERSIONS)
    assert (split.state, visible, next_range(split, 10)) == (C(99), None, None)
    split, visible = after_upstream(split, Batch(51, 200, 150), VERSIONS)
    assert (split.state, visible, split.target) == (F(), Offsets(100, 201), 999)


def test_rows_beyond_the_stop_are_counted_and_dropped_and_a_capped_range_has_none() -> None:
    split = replace(B99, target=300, scanned=297)
    found, visible = backfilled_batch(split, Batch(298, 310, 13), Stop(300, 3))
    assert (found.read - split.read, found.written - split.written, found.dropped) == (13, 3, 10)
    assert visible == Offsets(298, 301)
    found, visible = after_read(split, Offsets(298, 301), Batch(298, 300, 3))
    assert (found.read - split.read, found.written - split.written, found.dropped) == (3, 3, 0)
    assert (found.state, visible) == (C(300), Offsets(298, 301))


def test_a_record_beyond_a_target_that_is_a_hole() -> None:
    split = replace(B99, target=300, scanned=298)
    split, visible = backfilled_batch(split, Batch(299, 303, 3), Stop(302, 2))
    assert (split.state, visible, split.dropped) == (C(302), Offsets(299, 303), 1)
    split, visible = upstream_batch(split, Batch(250, 302, 40), VERSIONS)
    assert (split.state, visible) == (F(), None)


@pytest.mark.parametrize(
    ("state", "credit", "after", "cut"),
    [(B(99), None, C(99), 99), (B(99), 300, F(), 300), (B(None), None, F(), None), (B(None), 300, F(), 300)],
)
def test_a_covered_target_stops_after_a_record(state: B, credit: int | None, after: object, cut: int | None) -> None:
    """Where there is a credit the landing table holds it, and is thereby past the stop."""
    read = 0 if state.offset is None else 100
    split = Split(2, state, 300, read=read, written=read, scanned=199, credit=credit, landed=credit, end=1000)
    stopped, visible = after_read(split, Offsets(200, 301), None)
    assert (stopped.state, stopped.cut, stopped.scanned, visible) == (after, cut, 300, None)
    assert settled(stopped) == stopped


def test_a_target_that_falls_behind_what_was_covered_stops_without_a_read() -> None:
    """Kafka had nothing from 100 to 199 any more when it was read; the landing table had taken 150 before."""
    split = replace(B99, scanned=199)
    split, visible = after_upstream(split, Batch(150, 150, 1), VERSIONS)
    assert (split.state, split.cut, visible) == (F(), 150, None)


def test_a_stop_that_the_landing_table_has_passed_may_be_finished_without_a_row() -> None:
    """Visible rows are the same with and without that rule."""
    for landed in (301, 302, 350):
        early, late = replace(C301, state=F(), landed=landed), replace(C301, landed=landed)
        assert settled(late) == early
        for least in (landed + 1, landed + 9):
            rows = Batch(least, 400, 5)
            assert after_upstream(early, rows, VERSIONS) == after_upstream(late, rows, VERSIONS)
    behind = replace(C301, landed=300)
    assert settled(behind) == behind


def test_a_landing_table_behind_the_start_of_the_log() -> None:
    split, visible = after_upstream(opened(2, Log(5, 10), 2, None), Batch(3, 3, 1), VERSIONS)
    assert (split.state, split.cut, visible) == (F(), 3, None)
    split, visible = after_upstream(split, Batch(4, 9, 6), VERSIONS)
    assert visible == Offsets(4, 10)


def test_a_landing_table_that_filters_rows_proves_by_what_its_ingestion_has_committed() -> None:
    assert landed_through(C301, 300).state == C(301) and landed_through(C301, 301).state == F()
    assert landed_through(replace(C301, landed=302), 7).landed == 302
    split = landed_through(B99, 98)
    assert (split.state, split.target, split.credit, split.landed) == (B(99), 999, None, 98)
    assert Split.from_json(split.to_json()) == split


def test_without_a_landing_table_the_history_ends_at_the_pinned_end() -> None:
    split = opened(2, Log(0, 10), None, None)
    for stop in (6, 10):
        split = asked(split, Log(0, 50))
        covered = next_range(split, 6)
        assert covered is not None and covered.stop == stop
        split, _ = after_read(split, covered, Batch(covered.start, 8, 9 - covered.start) if stop == 10 else None)
        split = settled_alone(split)
    assert (split.state, split.cut, split.scanned, split.target) == (F(), 8, 9, 9)
    assert settled_alone(opened(2, Log(0, 10), None, 10)).state == F()
    assert settled_alone(B99) == B99


@pytest.mark.parametrize("form", ["row", "set"])
def test_offsets_that_land_twice_are_refused(form: str) -> None:
    for state in (B(None), B(99), C(99), F()):
        split = replace(B99 if state != B(None) else Split(2), state=state, landed=9)
        for least in (5, 9):
            with pytest.raises(OffsetsInvalid) as refused:
                if form == "row":
                    upstream_row(split, least)
                else:
                    after_upstream(split, Batch(least, 12, 3), VERSIONS)
            assert "on_existing='restart'" in refused.value.message, "rows deleted from the landing table are refused"
            said = {"partition": 2, "offset": least, "after": 9}
            assert refused.value.data == (said if form == "row" else {**said, "versions": [41, 44]})


@pytest.mark.parametrize("state", [B(99), C(99), F()], ids=str)
def test_offsets_that_are_read_twice_are_refused(state: B | C | F) -> None:
    split = replace(B99, state=state)
    for read in (lambda: backfilled_row(split, 99), lambda: backfilled_batch(split, Batch(99, 101, 3), None)):
        with pytest.raises(OffsetsInvalid) as refused:
            read()
        assert refused.value.data == {"partition": 2, "offset": 99, "after": 99}


def test_more_rows_than_offsets_are_refused() -> None:
    with pytest.raises(OffsetsInvalid) as refused:
        upstream_batch(B99, Batch(5, 9, 6), VERSIONS)
    assert refused.value.data == {"partition": 2, "offset": 5, "upto": 9, "rows": 6, "versions": [41, 44]}
    assert "on_existing='restart'" in refused.value.message and "delete" not in refused.value.message
    with pytest.raises(OffsetsInvalid):
        backfilled_batch(B99, Batch(100, 104, 6), None)


@pytest.mark.parametrize(
    ("covered", "rows"),
    [(Offsets(99, 200), None), (Offsets(101, 200), None), (Offsets(100, 1001), None),
     (Offsets(100, 200), Batch(100, 200, 2)), (Offsets(100, 200), Batch(99, 150, 2))],
)  # fmt: skip
def test_a_read_of_something_else_is_refused(covered: Offsets, rows: Batch | None) -> None:
    with pytest.raises(OffsetsInvalid) as refused:
        after_read(B99, covered, rows)
    assert refused.value.data == {"partition": 2, "offset": covered.start, "after": 99}


@pytest.mark.parametrize(("rows", "stop"), [(Batch(998, 999, 2), None), (Batch(100, 101, 2), Stop(101, 2))])
def test_a_stop_is_where_the_target_is(rows: Batch, stop: Stop | None) -> None:
    with pytest.raises(ValueError, match="stops at"):
        backfilled_batch(B99, rows, stop)


def test_a_chunk_in_flight_is_counted_after_a_takeover() -> None:
    split, visible = after_read(replace(B99, state=C(99), cut=99), Offsets(100, 1200), Batch(100, 149, 50))
    assert (split.read, split.dropped, split.scanned, visible) == (150, 50, 1199, None)
