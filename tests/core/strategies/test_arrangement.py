"""Rounds of key ranges: all at the newest epoch, changes behind the positions and the next rows in one commit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest

from airflow_backfill.core.delta.epochs import FEED
from airflow_backfill.core.errors import (
    BackfillError,
    FeedOff,
    HistoryLost,
    PositionRegressed,
    RecordInvalid,
    SchemaChanged,
)
from airflow_backfill.core.reports.summary import summarize
from airflow_backfill.core.splits.position import Consumed
from airflow_backfill.core.splits.ranges import AtKey
from airflow_backfill.core.state import effect as fx
from airflow_backfill.core.state.replay import apply
from airflow_backfill.core.state.state import Barrier
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.core.values.epoch import EpochRange
from airflow_backfill.core.values.phase import Event, Phase
from tests.core.builds import writing
from tests.core.model_target import SCHEMA, Model
from tests.core.running import Running
from tests.core.tasks import CATCH_UP, CONSUME, FINISH, READ, VERIFY, V


def arranged(*borders: str) -> Model:
    model = Model(borders=borders or ("10L", "20L"))
    model.plan()
    return model


def reads(model: Model) -> list[fx.ReadRanges]:
    return [work for work in model.works if isinstance(work, fx.ReadRanges)]


def reading(rounds: int) -> tuple[Model, Running]:
    """An attempt that has committed this many rounds."""
    model = arranged()
    running = model.start(READ)
    until_round(running, rounds)
    return model, running


def until_round(running: Running, rounds: int) -> None:
    """The attempt has committed this many rounds."""
    for _ in range(rounds):
        running.until(fx.NextChunk)
        running.until(fx.CommitRecord)
    running.step()


def test_a_quiet_source_is_read_chunk_by_chunk() -> None:
    model = arranged()
    state = model.run(READ)
    assert state.sealed and state.phase is Phase.SNAPSHOT and set(state.positions) == {Consumed(V)}
    assert [(work.epoch, work.changes) for work in reads(model)] == [(V, None)] * 6
    assert [work.before for work in reads(model)[1:]] == [work.after for work in reads(model)[:-1]]
    assert state.totals.snapshot_rows == 60 and state.totals.log_rows == 0


def test_every_round_is_at_the_newest_epoch_and_takes_all_ranges_along() -> None:
    model = arranged()
    running = model.start(READ)
    while not running.ended:
        if isinstance(running.waits_at, fx.ReadCommands):
            model.write(times=2)
        running.step()
    works = reads(model)
    for before, after in pairwise(works):
        assert after.changes == EpochRange(before.epoch + 1, after.epoch + 1), "a hole or an overlap"
    for work in works:
        assert {position.epoch for position in work.after if isinstance(position, (AtKey, Consumed))} == {work.epoch}
    assert works[0].changes is None, "changes were asked for before anything was read"
    assert model.state().totals.log_epochs == works[-1].epoch - works[0].epoch


def test_at_least_one_chunk_a_round_however_much_changes() -> None:
    model = arranged()
    running = model.start(READ)
    looks = 0
    while not running.ended and looks < 100:
        if isinstance(running.waits_at, fx.ReadCommands):
            model.write(rows=10**9, size=10**12)
            looks += 1
        running.step()
    assert len(reads(model)) == 6


@pytest.mark.parametrize(
    ("writes", "fit"),
    [
        ([{"rows": 400, "times": 5}, {"rows": 5_000}, {"rows": 400}], [2, 2, 1, 1, 1]),
        ([{"size": 90, "times": 5}], [2, 2, 1]),
    ],
    ids=["ROUND takes 1,000 rows", "ROUND takes 200 bytes"],
)
def test_a_round_takes_the_changes_that_fit_and_one_epoch_always(writes: list[dict[str, int]], fit: list[int]) -> None:
    model, running = reading(1)
    for write in writes:
        model.write(**write)
    running.finish()
    assert [len(work.changes) for work in reads(model) if work.changes] == fit


def test_a_pause_holds_rows_back_and_lets_changes_pass() -> None:
    model, running = reading(1)
    model.order(Command(Verb.PAUSE))
    model.write()
    work = running.until(fx.CommitRecord).work
    assert isinstance(work, fx.ReadRanges) and work.changes == EpochRange(V + 1, V + 2)
    assert [p.key for p in work.after if isinstance(p, AtKey)] == [p.key for p in work.before if isinstance(p, AtKey)]
    assert isinstance(running.until(fx.SleepUntil), fx.SleepUntil)
    model.order(Command(Verb.RESUME))
    assert running.until(fx.NextChunk) is not None


def test_a_throttle_holds_rows_back_and_lets_changes_pass() -> None:
    """They stay readable only for so long; and what passes does not push the rows further away."""
    model = arranged()
    model.order(Command(Verb.THROTTLE, rate=1))
    running = model.start(READ)
    until_round(running, 1)
    begun = model.now
    for _ in range(8):
        model.write(rows=50)
        work = running.until(fx.CommitRecord).work
        assert isinstance(work, fx.ReadRanges) and work.changes is not None
        assert work.after[0] == replace(work.before[0], epoch=work.epoch)
        running.step()
    assert model.now == begun
    running.until(fx.NextChunk)
    assert 10_000 <= model.now - begun <= 15_000


def test_a_pause_before_the_first_row_writes_nothing() -> None:
    model = arranged()
    model.order(Command(Verb.PAUSE))
    model.write(times=3)
    running = model.start(READ)
    running.until(fx.SleepUntil)
    assert reads(model) == []


def test_a_rate_of_zero_is_a_pause_and_a_rate_is_kept() -> None:
    model = arranged()
    model.order(Command(Verb.THROTTLE, rate=0))
    running = model.start(READ)
    running.until(fx.SleepUntil)
    model.order(Command(Verb.THROTTLE, rate=5))
    begun = model.now
    running.finish()
    # 60 rows at 5 a second, of which the last chunk's ten need no waiting afterwards.
    assert model.now - begun >= 10_000


OTHER_NAME = SCHEMA.replace('"name": "name"', '"name": "other"')


@pytest.mark.parametrize(
    ("spoil", "error", "said"),
    [
        (lambda model: model.source.gone.add(V + 1), HistoryLost, f"epoch {V + 1}"),
        (lambda model: model.alter(schema_json=OTHER_NAME), SchemaChanged, f"epoch {V + 2} drops"),
        (lambda model: model.alter(configuration={FEED: "false"}), FeedOff, f"epoch {V + 2}"),
    ],
    ids=["an epoch is gone", "another schema", "no feed"],
)
def test_what_the_build_cannot_get_past_stops_it_at_the_next_round(
    spoil: Callable[[Model], None], error: type[BackfillError], said: str
) -> None:
    model, running = reading(1)
    model.write()
    spoil(model)
    before = len(reads(model))
    with pytest.raises(error, match=said):
        running.finish()
    assert len(reads(model)) == before


def test_a_retry_goes_on_from_the_positions() -> None:
    model = arranged()
    until_round(model.start(READ), 3)
    before = model.state().positions
    assert before == (Consumed(V), AtKey(V, 1, ("1.5",)), AtKey(V, 0))
    model.run(READ)
    assert reads(model)[3].before == before and model.state().totals.snapshot_rows == 60


def test_the_rest_of_the_build_is_the_same() -> None:
    model = arranged()
    model.run(READ)
    model.write(times=3)
    for task in (CONSUME, CATCH_UP, VERIFY, FINISH):
        state = model.run(task)
    assert (state.phase, state.handoff, state.applied) == (Phase.FINISHED, V + 3, V + 3)


def test_an_empty_range_is_completed_without_a_chunk() -> None:
    model = arranged("10L")
    model.next_chunk = lambda positions: fx.Chunks({0: None, 1: None}, 0, 0, 0)  # type: ignore[method-assign]
    state = model.run(READ)
    assert state.sealed and len(reads(model)) == 1


def test_the_summary_counts_ranges() -> None:
    model, _ = reading(2)
    summary = summarize(model.state())
    assert summary["read"] == {"unit": "ranges", "done": 1, "of": 3} and summary["phase_percent"] == 33.3
    assert summary["rows"]["consuming_snapshot"] == 20


WRONG = {
    "ranges at two epochs": (AtKey(V, 1, ("5L",)), Consumed(V + 1), AtKey(V, 0)),
    "an epoch before the plan's": (AtKey(V - 1, 1, ("5L",)), AtKey(V - 1, 0), AtKey(V - 1, 0)),
    "a chunk that is left out": (AtKey(V, 2, ("5L",)), AtKey(V, 0), AtKey(V, 0)),
}


@pytest.mark.parametrize("positions", WRONG.values(), ids=WRONG)
def test_a_record_that_no_round_writes_is_refused(positions: tuple[AtKey | Consumed, ...]) -> None:
    model = arranged()
    running = writing(model, READ)
    running.step()
    write = running.until(fx.CommitRecord)
    state = model.state()
    assert write.record.event is Event.CHUNKS and state.newest is not None
    good = Barrier(state.newest.version + 1, 0, write.record, 10)
    assert apply(state, good).begun
    with pytest.raises((RecordInvalid, PositionRegressed)):
        apply(state, replace(good, record=replace(write.record, positions=positions)))
