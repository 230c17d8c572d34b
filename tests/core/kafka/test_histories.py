"""The ten histories of docs/behaviours/source.md, with their numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from airflow_backfill.core.errors import KafkaLost, LandingAhead, SourceReplaced
from airflow_backfill.core.kafka.batches import Stop, backfilled_batch, upstream_batch
from airflow_backfill.core.kafka.offsets import Offsets
from airflow_backfill.core.kafka.opening import Log, appeared, asked, opened, reopened
from airflow_backfill.core.kafka.progress import history_done
from airflow_backfill.core.kafka.scan import after_read, after_upstream, next_range, settled
from airflow_backfill.core.kafka.split import Split
from airflow_backfill.core.kafka.state import Backfilling, CatchingUp, Finished
from airflow_backfill.core.values.epoch import EpochRange
from tests.core.kafka.record_by_record import backfilled_row, upstream_row
from tests.core.kafka.topic import batch, inside

VERSIONS = EpochRange(41, 42)
B, C, F = Backfilling, CatchingUp, Finished
B99 = Split(0, B(99), 999, read=100, written=100, scanned=99, end=1000)


def span(first: int, last: int) -> range:
    """The offsets as the histories write them: both inclusive."""
    return range(first, last + 1)


class Row:
    """A split and what was written of it, row by row."""

    def __init__(self, split: Split) -> None:
        self.split = split

    def land(self, offsets: Iterable[int]) -> list[int]:
        visible = []
        for u in offsets:
            self.split, seen = upstream_row(self.split, u)
            visible += [u] if seen else []
        return visible

    def read(self, offsets: Iterable[int]) -> list[int]:
        visible = []
        for k in offsets:
            self.split, seen = backfilled_row(self.split, k)
            visible += [k] if seen else []
        return visible


class Sets(Row):
    """The same with all rows at once."""

    def land(self, offsets: Iterable[int]) -> list[int]:
        rows = list(offsets)
        self.split, visible = upstream_batch(self.split, batch(rows), VERSIONS)
        return inside(rows, visible)

    def read(self, offsets: Iterable[int]) -> list[int]:
        rows = list(offsets)
        self.split, visible = backfilled_batch(self.split, batch(rows), stop(self.split, rows))
        return inside(rows, visible)


class Scan(Row):
    """The same in capped ranges."""

    def land(self, offsets: Iterable[int]) -> list[int]:
        rows = list(offsets)
        self.split, visible = after_upstream(self.split, batch(rows), VERSIONS)
        return inside(rows, visible)

    def scan(self, quota: int, records: Iterable[int]) -> list[int]:
        covered = next_range(self.split, quota)
        assert covered is not None
        rows = [k for k in records if k in covered]
        self.split, visible = after_read(self.split, covered, batch(rows))
        return inside(rows, visible)


def stop(split: Split, rows: list[int]) -> Stop | None:
    """What the reader finds of the target in a chunk."""
    beyond = [k for k in rows if split.target is not None and k >= split.target]
    if not beyond or not isinstance(split.state, Backfilling):
        return None
    return Stop(beyond[0], len(rows) - len(beyond) + 1)


FORMS = pytest.mark.parametrize("form", [Row, Sets])


@FORMS
def test_takeover_with_a_chunk_in_flight(form: type[Row]) -> None:
    run = form(Split(0, target=999, end=1000))
    assert run.read(span(0, 99)) == [*span(0, 99)]
    assert run.split.state == B(99)
    assert run.land(span(50, 60)) == []
    assert (run.split.state, run.split.target) == (C(99), 999)
    assert run.read(span(100, 149)) == []
    assert (run.split.read, run.split.written, run.split.dropped) == (150, 100, 50)
    assert run.land(span(61, 120)) == [*span(100, 120)]
    assert (run.split.state, run.split.read, run.split.cut) == (F(), 150, 99)


@FORMS
def test_the_least_offset_decides(form: type[Row]) -> None:
    met = form(B99)
    assert met.land(span(99, 120)) == [*span(100, 120)]
    assert met.split.state == F()
    assert met.read(span(100, 130)) == []

    ahead = form(B99)
    assert ahead.land(span(100, 120)) == []
    assert (ahead.split.state, ahead.split.target) == (B(99), 120)
    assert ahead.read(span(100, 130)) == [*span(100, 120)]
    assert (ahead.split.state, ahead.split.dropped) == (C(120), 10)
    assert ahead.land([121, 122]) == [121, 122]
    assert ahead.split.state == F()


@FORMS
def test_the_target_falls_and_the_seam_is_compacted_row_by_row(form: type[Row]) -> None:
    run = form(B99)
    assert run.land([300]) == []
    assert (run.split.target, run.split.credit) == (300, 300)
    assert run.read([*span(100, 299), 302, 303]) == [*span(100, 299), 302]
    assert (run.split.state, run.split.dropped) == (C(302), 1)
    assert run.land([301]) == []
    assert run.land([303, 304]) == [303, 304]
    assert run.split.state == F()


def test_the_target_falls_and_the_seam_is_compacted_in_a_capped_scan() -> None:
    run = Scan(B99)
    assert run.land([300]) == []
    assert next_range(run.split, 1000) == Offsets(100, 301)
    assert run.scan(1000, [*span(100, 299), 302, 303]) == [*span(100, 299)]
    assert (run.split.state, run.split.cut) == (F(), 300)
    assert run.land([301]) == [301]
    assert run.land([303, 304]) == [303, 304]


@pytest.mark.parametrize("landed", [7, None, 5])
def test_an_invisible_tail(landed: int | None) -> None:
    for form in (Row, Sets):
        rows = form(Split(0, target=8, end=9))
        assert rows.read(span(0, 7)) == [*span(0, 7)]
        assert rows.split.state == B(7)

    run = Scan(opened(0, Log(0, 9), landed, None))
    assert next_range(run.split, 100) == Offsets(0, 9)
    assert run.scan(100, span(0, 7)) == [*span(0, 7)]
    assert (run.split.scanned, run.split.cut) == (8, 7)
    if landed == 7:
        assert run.split.state == F()
    else:
        assert run.split.state == C(7)
        assert run.land([7]) == []
        assert run.split.state == F()


def test_a_range_with_nothing_in_it() -> None:
    run = Scan(B99)
    assert next_range(run.split, 100) == Offsets(100, 200)
    assert run.scan(100, []) == []
    assert (run.split.state, run.split.scanned, run.split.read) == (B(99), 199, 100)
    run.split = Split.from_json(run.split.to_json())
    run.split = reopened(run.split, Log(0, 1000))
    assert next_range(run.split, 100) == Offsets(200, 300)


def test_an_idle_topic() -> None:
    run = Scan(opened(0, Log(0, 10), 9, None))
    assert run.split.target == 9
    assert run.scan(100, span(0, 9)) == [*span(0, 9)]
    assert (run.split.state, run.split.cut) == (F(), 9)
    # Row by row it catches up for ever.
    rows = Row(Split(0, target=9, landed=9, end=10))
    rows.read(span(0, 9))
    assert rows.split.state == C(9)
    assert history_done([0], {0: rows.split})
    assert settled(rows.split).state == F()


def test_pins_in_the_wrong_order() -> None:
    with pytest.raises(LandingAhead) as refused:
        opened(0, Log(0, 10), 12, None)
    assert refused.value.data == {"partition": 0, "landed": 12, "end": 10}
    # What is refused there: with t = 9, nobody would bring 10 to 12.
    run = Row(Split(0, target=9, end=10))
    assert [*run.read(span(0, 9)), *run.land([13])] == [*span(0, 9), 13]
    assert run.split.state == F()
    # The landing table first: they are history, or they come as rows.
    history = Scan(opened(0, Log(0, 13), 9, None))
    assert history.scan(100, span(0, 12)) == [*span(0, 12)]
    assert history.land([10, 11, 12, 13]) == [13]
    rows = Scan(opened(0, Log(0, 10), 9, None))
    assert [*rows.scan(100, span(0, 9)), *rows.land([10, 11, 12, 13])] == [*span(0, 13)]


def test_a_new_partition_honest_and_late() -> None:
    honest = Scan(appeared(3, Log(0, 4), None, 0))
    assert honest.split.state == F()
    assert honest.land(span(0, 3)) == [*span(0, 3)]

    late = Scan(appeared(3, Log(0, 10), None, 5))
    assert (late.split.state, late.split.target) == (B(None), 9)
    assert late.land(span(5, 9)) == []
    assert late.split.target == 9
    assert late.scan(100, span(0, 9)) == [*span(0, 9)]
    assert (late.split.state, late.split.cut) == (F(), 9)
    assert late.land([10, 11]) == [10, 11]

    expired = Scan(appeared(3, Log(5, 10), None, 5))
    assert expired.split.state == F()
    assert expired.land(span(5, 9)) == [*span(5, 9)]


def test_a_restart_then_retention() -> None:
    committed = replace(B99, target=300, landed=90)
    run = Scan(committed)
    assert run.scan(100, span(100, 199)) == [*span(100, 199)]
    run.split = reopened(Split.from_json(committed.to_json()), Log(100, 5001))
    assert (run.split.state, run.split.target, run.split.read) == (B(99), 5000, 100)
    assert run.scan(100, span(100, 400)) == [*span(100, 199)]
    assert run.split.read == 200

    with pytest.raises(KafkaLost) as lost:
        reopened(committed, Log(150, 5001))
    assert lost.value.data == {"partition": 0, "wanted": 100, "have": 150, "missing": 50}
    for answer in (asked, reopened):
        with pytest.raises(SourceReplaced, match="truncated or created again") as replaced:
            answer(committed, Log(0, 50))
        assert replaced.value.data == {"partition": 0, "end": 50, "known": 1000}


def test_pause_throttle_move_done() -> None:
    """What to read is derived from the states each time: nothing is parked, so that nothing replays or is forgotten."""
    p = Scan(replace(B99, target=149, end=150))
    q = Scan(Split(1, B(5), 9, read=6, written=6, scanned=5, end=10))
    both = [0, 1]
    assert next_range(p.split, 0) is None
    assert not history_done(both, {0: p.split})
    assert p.scan(1000, span(0, 149)) == [*span(100, 149)]
    assert p.split.state == C(149)
    assert history_done([0], {0: p.split})
    assert not history_done(both, {0: p.split, 1: q.split})
    assert q.scan(1000, span(0, 9)) == [*span(6, 9)]
    assert history_done(both, {0: p.split, 1: q.split})
    assert [*p.land([149, 150]), *q.land([8, 9, 10])] == [150, 10]
    assert p.split.state == q.split.state == F()
    assert next_range(p.split, 1000) is None
