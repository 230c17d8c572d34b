"""A target that somebody has changed and restored: its build goes on from the records of the restored version."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from airflow_backfill.core.attempts.goals import SnapshotGoal
from airflow_backfill.core.attempts.recovery import recover
from airflow_backfill.core.errors import BackfillError, NotAllowedNow, RecordInvalid, TargetDiverged
from airflow_backfill.core.model.record import Record
from airflow_backfill.core.state import effect as fx
from airflow_backfill.core.state.load import load
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.commit import TableMetadata
from airflow_backfill.core.values.control import Command, Control, Verb
from airflow_backfill.core.values.phase import Event, Phase
from airflow_backfill.core.values.round_size import RoundSize
from tests.core.builds import caught_up, finished, logged, planned, upstream, writing
from tests.core.model_target import TARGET_ID, Model
from tests.core.running import Running
from tests.core.tasks import CONSUME, FINISH, READ, VERIFY, follow

NO_COLUMN = {"data_change": False, "metadata": TableMetadata(TARGET_ID, '{"type":"struct","fields":[]}')}
SMALL = SnapshotGoal(0, 1, RoundSize(100, 100))


def half_read() -> Model:
    """A build whose snapshot is not complete."""
    model = planned()
    writing(model, SMALL, 4)
    return model


def rewound(model: Model) -> BuildState:
    state: BuildState = Running(model, recover(model.attempt())).finish()
    return state


def state_at(model: Model, version: int) -> BuildState:
    state: BuildState = Running(model, load(at=version)).finish()
    return state


STANDS: dict[str, Callable[[], Model]] = {
    "planned": planned,
    "snapshot": half_read,
    "consume_log": logged,
    "catch_up": caught_up,
    "finished": lambda: finished(times=2),
    "upstream": lambda: upstream(2),
}


@pytest.mark.parametrize("where", STANDS)
def test_the_build_goes_on_from_the_restored_version(where: str) -> None:
    model = STANDS[where]()
    good = model.target.head
    before = state_at(model, good)
    model.foreign("DELETE")
    model.foreign("RESTORE", restored=good)
    with pytest.raises(TargetDiverged):
        model.state()
    state = rewound(model)
    assert (state.phase, state.positions, state.totals) == (before.phase, before.positions, before.totals)
    assert (state.handoff, state.bound, state.certificate) == (before.handoff, before.bound, before.certificate)
    assert state.stands == before.stands or not before.known
    assert model.records()[-1].event is Event.REWIND
    for goal in (READ, CONSUME, VERIFY, FINISH):
        if before.phase in (Phase.SNAPSHOT, Phase.CONSUME_LOG) and goal in (VERIFY, FINISH):
            break
        model.run(goal)
    if before.phase in (Phase.FINISHED, Phase.UPSTREAM):
        model.write()
        assert model.run(follow(model.source.head)).applied == model.source.head


def test_a_round_that_landed_on_top_of_foreign_rows_is_read_again() -> None:
    model = planned()
    attempt = writing(model, SMALL, 4)
    good = model.target.head
    before = state_at(model, good)
    model.foreign("DELETE")
    with pytest.raises(TargetDiverged):
        attempt.finish()
    assert model.records()[-1].event is Event.FILES
    model.foreign("RESTORE", restored=good)
    assert rewound(model).positions == before.positions
    state = model.run(READ)
    assert state.sealed and state.totals.snapshot_rows == 60


def test_a_round_that_lands_after_the_restore_is_noticed() -> None:
    model = planned()
    late = writing(model, SMALL, 4)
    good = model.target.head
    model.foreign("DELETE")
    model.foreign("RESTORE", restored=good)
    rewinding = Running(model, recover(model.attempt()))
    rewinding.until(fx.CommitRecord)
    late.step()
    with pytest.raises(NotAllowedNow, match="changed rows"):
        rewinding.finish()
    model.foreign("RESTORE", restored=good)
    assert rewound(model).positions == state_at(model, good).positions
    with pytest.raises(TargetDiverged):
        late.finish()
    assert model.run(READ).totals.snapshot_rows == 60


def follow_way_out(model: Model, error: BackfillError) -> BuildState:
    """Do what the error says: the RESTORE that it names, and recover."""
    named = re.search(r"TO VERSION AS OF (\d+)", error.message)
    assert named is not None, error.message
    model.foreign("RESTORE", restored=int(named[1]))
    return rewound(model)


def overtaken(model: Model) -> Running:
    """A rewind before its barrier, after another writer has changed rows."""
    good = model.target.head
    model.foreign("DELETE")
    model.foreign("RESTORE", restored=good)
    rewinding = Running(model, recover(model.attempt()))
    while not isinstance(rewinding.until(fx.CommitRecord).record, Record):
        rewinding.step()
    model.foreign("WRITE")
    return rewinding


@pytest.mark.parametrize("where", STANDS)
def test_what_changes_rows_just_before_the_rewind_is_taken_back_by_what_the_error_says(where: str) -> None:
    """The version before it holds no record of the build for its rows: they are those of the first RESTORE."""
    model = STANDS[where]()
    before, rewinding = model.state(), overtaken(model)
    with pytest.raises(BackfillError) as raised:
        rewinding.finish()
    assert follow_way_out(model, raised.value).positions == before.positions


def test_a_rewind_that_was_killed_behind_rows_of_another_writer_is_taken_back_by_what_its_tasks_say() -> None:
    model = half_read()
    before, rewinding = model.state(), overtaken(model)
    rewinding.step()
    with pytest.raises(TargetDiverged) as raised:
        model.run(READ)
    assert follow_way_out(model, raised.value).positions == before.positions
    assert model.run(READ).totals.snapshot_rows == 60


@pytest.mark.parametrize(
    "wrong",
    [{"totals": {"log_rows": -50}}, {"more": 1}, {"airflow_backfill": 99}, {"positions": []}, {"plan": "0" * 32}],
)
def test_a_damaged_record_is_left_behind_by_a_restore_to_the_version_before_it(wrong: dict[str, Any]) -> None:
    model = half_read()
    before, good, newest = model.state(), model.target.head, model.records()[-1]
    document = {**newest.to_json(), "seq": newest.seq + 1, **wrong}
    model.land_text(newest.app_id, newest.seq + 1, json.dumps(document, separators=(",", ":")))
    with pytest.raises(RecordInvalid):
        model.state()
    with pytest.raises(NotAllowedNow, match="The damage: "):
        rewound(model)
    model.foreign("RESTORE", restored=good)
    assert rewound(model).positions == before.positions
    assert model.run(READ).totals.snapshot_rows == 60


def test_a_restore_just_before_the_rewind_is_the_one_that_counts() -> None:
    model = half_read()
    before, good = state_at(model, 3), model.target.head
    model.foreign("DELETE")
    model.foreign("RESTORE", restored=good)
    rewinding = Running(model, recover(model.attempt()))
    while not isinstance(rewinding.until(fx.CommitRecord).record, Record):
        rewinding.step()
    model.foreign("RESTORE", restored=3)
    assert rewinding.finish().positions == before.positions
    assert model.run(READ).totals.snapshot_rows == 60


@pytest.mark.parametrize(
    ("commits", "why"),
    [
        ([("DELETE", {})], "version 5 of the target changed rows"),
        ([("DELETE", {}), ("RESTORE", {})], "version 6 of the target changed rows"),
        ([("DELETE", {}), ("RESTORE", {"restored": 4}), ("WRITE", {})], "version 7 of the target changed rows"),
        ([("OPTIMIZE", {"data_change": False, "strays": True})], "version 5 of the target changed rows"),
        ([("DELETE", {}), ("RESTORE", {"restored": 5})], "RESTORE TABLE delta"),
        (
            [("DELETE", {}), ("RESTORE", {"restored": 4}), ("DROP COLUMNS", NO_COLUMN)],
            "version 7 of the target: it drops",
        ),
    ],
    ids=["none", "to a time", "and rows since", "of a dropped table", "to the damage", "and a column less since"],
)
def test_without_the_rows_of_a_sound_version_nothing_is_written(
    commits: list[tuple[str, dict[str, Any]]], why: str
) -> None:
    """Not a fence either, which would end the work of others."""
    model = half_read()
    assert model.target.head == 4
    for operation, fields in commits:
        model.foreign(operation, **fields)
    head = model.target.head
    with pytest.raises(BackfillError, match=why):
        rewound(model)
    assert model.target.head == head


def test_a_sound_build_goes_on_where_it_stands() -> None:
    """As often as somebody asks for it."""
    model = half_read()
    model.foreign("OPTIMIZE", data_change=False)
    before = model.state()
    for _ in range(2):
        after = rewound(model)
        assert (after.positions, after.totals, after.phase) == (before.positions, before.totals, before.phase)
    assert model.run(READ).totals.snapshot_rows == 60


def test_orders_stay_in_force_but_for_a_cancel() -> None:
    model = half_read()
    good = model.target.head
    model.order(Command(Verb.PAUSE))
    model.order(Command(Verb.CANCEL))
    model.foreign("DELETE")
    model.foreign("RESTORE", restored=good)
    assert rewound(model).control == Control(2, paused=True)


@pytest.mark.parametrize("fences", range(1, 4))
def test_a_rewind_that_was_killed_between_its_fences_is_completed_by_the_next_one(fences: int) -> None:
    """Whatever was committed since: a lane with a fence would take nothing any more."""
    model = half_read()
    good = model.target.head
    before = state_at(model, good)
    model.foreign("DELETE")
    model.foreign("RESTORE", restored=good)
    killed = Running(model, recover(model.attempt()))
    killed.until(fx.CommitRecord, fences)
    assert rewound(model).positions == before.positions
    late = killed.waits_at
    assert isinstance(late, fx.CommitRecord)
    model.answer(late)  # it was under way
    assert model.run(READ).sealed
    again = rewound(model)
    assert again.positions == model.state().positions and again.sealed
    assert model.run(CONSUME).phase is Phase.CONSUME_LOG
