"""How the number of lanes changes between attempts, and when it cannot."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from airflow_backfill.core.attempts.goals import SnapshotGoal
from airflow_backfill.core.errors import Fenced, RecordInvalid
from airflow_backfill.core.state.effect import CommitRecord
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.core.values.totals import Totals
from tests.core.attempts.runs import events, files_read
from tests.core.builds import planned, writing
from tests.core.model_target import Model
from tests.core.running import Running
from tests.core.tasks import CONSUME, ONE_FILE, V


def side_by_side(attempts: list[Running]) -> None:
    """All of them go on in turn, to their ends."""
    while any(not one.ended for one in attempts):
        for one in attempts:
            if not one.ended:
                one.step()
    assert [one.error for one in attempts] == [None] * len(attempts)


def test_files_that_two_lanes_left_half_read_go_to_three() -> None:
    model = planned(files=30, splits=5, lanes=2)
    for lane in (0, 1):
        writing(model, SnapshotGoal(lane, 2, ONE_FILE), 5)
    assert 0 < sum(files_read(model).values()) < 30
    side_by_side([model.start(SnapshotGoal(lane, 3, ONE_FILE)) for lane in range(3)])
    assert files_read(model) == Counter(range(30)) and model.state().layout.lanes == 3


def test_lanes_of_a_layout_that_was_closed_write_nothing_more() -> None:
    model = planned(files=30, splits=5, lanes=2)
    old = [model.start(SnapshotGoal(lane, 2, ONE_FILE)) for lane in (0, 1)]
    for one in old:
        one.until(CommitRecord, nth=5)
    newer = writing(model, SnapshotGoal(0, 1, ONE_FILE), 5)
    rounds = len(model.rounds)
    for one in old:
        with pytest.raises(Fenced):
            one.finish()
    assert len(model.rounds) == rounds
    newer.finish()
    assert files_read(model) == Counter(range(30))


def closed(model: Model, lane: int) -> bool:
    barrier = model.state().lanes[lane]
    return barrier is not None and barrier.record.closed


def test_who_is_left_behind_by_what_an_older_attempt_decided_goes_on() -> None:
    """It was closed by a sibling, which carried the decision out before it could decide otherwise."""
    model = planned(files=30, splits=5, lanes=3)
    older = writing(model, SnapshotGoal(0, 1, ONE_FILE))
    working = [model.start(SnapshotGoal(1, 3, ONE_FILE))]
    working[0].until(CommitRecord, nth=4)
    older.step()
    working += [model.start(SnapshotGoal(lane, 3, ONE_FILE)) for lane in (0, 2)]
    while not closed(model, 1):
        working[1].step()
    side_by_side(working)
    assert files_read(model) == Counter(range(30))


def test_a_lane_that_has_ended_outlives_its_record() -> None:
    """The other lane renews what it knows, for as long as it is paused; the log is cleaned up behind it."""
    model = planned(files=30, splits=5, lanes=2)
    model.run(SnapshotGoal(0, 2, ONE_FILE))
    ended, rows = model.state().lanes[0], model.state().totals.snapshot_rows
    paused = writing(model, SnapshotGoal(1, 2, ONE_FILE), 5)
    model.order(Command(Verb.PAUSE))
    while model.target.head < 60:
        paused.step()
    assert ended is not None
    model.target.earliest = model.records()[-1].prev + 1
    state = model.state()
    kept = state.lanes[0]
    assert kept is not None and (kept.record.seq, kept.totals) == (ended.record.seq, ended.totals)
    assert state.totals.snapshot_rows > rows
    model.order(Command(Verb.RESUME))
    paused.finish()
    assert model.run(SnapshotGoal(0, 2, ONE_FILE)).sealed
    assert model.run(CONSUME).layout.number == 2
    assert files_read(model) == Counter(range(30))


def test_a_record_that_nobody_could_read_is_not_committed() -> None:
    model = planned()
    attempt = model.start(SnapshotGoal(0, 1, ONE_FILE))
    write = attempt.until(CommitRecord, nth=2)
    head = model.target.head
    for damage in ({"totals": Totals(unwanted_rows=-50)}, {"due": -1}, {"tails": ()}, {"attempt": ""}):
        with pytest.raises(RecordInvalid):
            model.answer(CommitRecord(replace(write.record, **damage), write.work))
    assert model.target.head == head
    attempt.finish()
    assert model.state().sealed


def test_lanes_cannot_change_while_the_log_is_consumed() -> None:
    """The snapshot is over, whoever asks for how many lanes: nothing is closed, claimed or written."""
    model = Model()
    model.sealed(lanes=1)
    model.write(times=3)
    head = model.target.head
    for lane in range(4):
        assert model.run(SnapshotGoal(lane, 4, ONE_FILE)).layout.lanes == 1
    assert model.target.head == head
    assert model.run(CONSUME).applied == V + 3


def test_all_lanes_close_before_the_log_is_consumed() -> None:
    model = planned(lanes=3, splits=3)
    for lane in range(3):
        model.run(SnapshotGoal(lane, 3, ONE_FILE))
    state = model.run(CONSUME)
    assert (state.layout.number, state.layout.lanes) == (2, 1)
    assert events(model)[-5:] == ["close", "close", "close", "claim", "seal"]


def test_an_older_attempt_with_other_lanes_in_mind_changes_no_layout() -> None:
    model = planned(files=30, splits=5)
    older, newer = model.attempt(), model.attempt()
    model.start(SnapshotGoal(0, 1, ONE_FILE), newer).until(CommitRecord, nth=4)
    head = model.target.head
    with pytest.raises(Fenced):
        model.run(SnapshotGoal(0, 3, ONE_FILE), older)
    assert model.target.head == head and model.state().layout.lanes == 1
