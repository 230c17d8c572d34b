from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_backfill.core.attempts.goals import ConsumeLogGoal, SnapshotGoal
from airflow_backfill.core.attempts.recovery import recover
from airflow_backfill.core.delta.epochs import epoch_of
from airflow_backfill.core.errors import ChangesIncomplete, HistoryLost, NotPlanned, RecordInvalid, TargetDiverged
from airflow_backfill.core.gates.max_lag import MaxLag
from airflow_backfill.core.state.effect import CommitRecord, FileSize, ReadCommit
from airflow_backfill.core.state.load import catch_up, load, told, written_on
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.commit import Commit, FileTotals, TableMetadata
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.core.values.epoch import EpochRange
from airflow_backfill.core.values.phase import Phase
from airflow_backfill.core.values.round_size import RoundSize
from tests.core.builds import planned, sealed, writing
from tests.core.histories import SEEDS, random_build, states
from tests.core.model_target import PATIENCE, ROUND, SCHEMA, TARGET_ID, Model
from tests.core.running import Running
from tests.core.tasks import CONSUME, READ, V


def read(model: Model, build: str | None = None) -> BuildState:
    found: BuildState = Running(model, load(build)).finish()
    return found


def cut(model: Model, head: int) -> Model:
    """The model with the target's log as it was at that version."""
    model.target.commits = model.target.commits[: head + 1]
    return model


@given(SEEDS)
def test_what_is_read_back_is_what_was_committed_at_every_moment(seed: int) -> None:
    model = random_build(seed)
    by_version = {s.newest.version if s.newest else -1: s for s in states(model)}
    planned = next(v for v in range(model.target.head + 1) if model.target.read(v).txns)
    for head in range(model.target.head, planned - 1, -1):
        expected = max((v for v in by_version if v <= head), default=-1)
        assert read(cut(model, head)) == replace(by_version[expected], proven=head)


@given(SEEDS)
def test_what_is_told_is_what_the_writer_of_the_newest_record_knew(seed: int) -> None:
    """No commit of another lane is read; its progress may be older, and is never ahead."""
    model = random_build(seed)
    planned = next(v for v in range(model.target.head + 1) if model.target.read(v).txns)
    for head in range(model.target.head, planned - 1, -1):
        proven = read(cut(model, head))
        shown: BuildState = Running(model, told()).finish()
        assert (shown.newest, shown.layout, shown.phase) == (proven.newest, proven.layout, proven.phase)
        assert all(one.rank <= other.rank for one, other in zip(shown.positions, proven.positions, strict=True))
        if shown.layout.lanes == 1:
            assert shown == proven


@given(SEEDS, st.data())
def test_catching_up_leads_to_the_same_state_as_reading_anew(seed: int, data: st.DataObject) -> None:
    model = random_build(seed)
    whole = list(model.target.commits)
    planned = next(v for v in range(model.target.head + 1) if model.target.read(v).txns)
    before = read(cut(model, data.draw(st.integers(planned, model.target.head))))
    model.target.commits = whole
    assert Running(model, catch_up(before)).finish() == read(model)


def test_only_the_end_of_the_log_is_read() -> None:
    model = Model([FileSize(100, 1)] * 50, splits=5)
    model.plan()
    model.run(SnapshotGoal(0, 1, RoundSize(100, 100)))
    assert model.target.head > 50
    for clean in (0, model.target.head):
        model.target.earliest = clean
        model.effects.clear()
        assert read(model).sealed
        assert [e.version for e in model.effects if isinstance(e, ReadCommit)] == [model.target.head]


def test_a_lane_that_ended_long_ago_is_found_where_a_later_record_saw_it() -> None:
    model = Model([FileSize(100, 1)] * 40, splits=2)
    model.plan(lanes=2)
    model.run(SnapshotGoal(1, 2, ROUND))
    model.run(SnapshotGoal(0, 2, RoundSize(100, 100)))
    model.effects.clear()
    assert read(model).sealed and len([e for e in model.effects if isinstance(e, ReadCommit)]) == 2


def test_a_target_that_a_query_writes_on_is_read_unless_it_is_another_one() -> None:
    model = sealed()
    before = read(model)
    model.foreign("STREAMING UPDATE")
    with pytest.raises(TargetDiverged):
        Running(model, told()).finish()
    assert Running(model, written_on()).finish() == replace(before, proven=model.target.head)
    model.foreign("RESTORE")
    with pytest.raises(TargetDiverged):
        Running(model, written_on()).finish()


# --- what is not there ---


def test_a_table_without_that_build_is_not_planned_and_the_name_is_told() -> None:
    with pytest.raises(NotPlanned):
        read(Model())
    with pytest.raises(NotPlanned) as raised:
        read(sealed(), "b2")
    assert raised.value.data["wanted"] == "b2"


def test_a_log_that_ends_before_the_first_barrier_is_not_taken_for_an_unplanned_table() -> None:
    model = sealed()
    model.foreign("OPTIMIZE", data_change=False)
    model.target.earliest = model.target.head
    with pytest.raises(HistoryLost):
        read(model)


def test_a_plan_without_a_barrier_is_a_planned_build() -> None:
    model = planned()
    state = read(model)
    assert (state.phase, state.newest, state.applied, state.seq(0)) == (Phase.SNAPSHOT, None, None, 0)


def late(model: Model, **changes: Any) -> Commit:
    """A commit of an attempt of the build whose table stood here before."""
    record = replace(model.records()[-1], build="dropped", plan="another", **changes)
    commit = Commit(0, 0, "WRITE", txns={record.app_id: record.seq}, user_metadata=record.encode())
    return replace(commit, added=FileTotals(1, 1, 1), data_change=True) if changes else commit


def land(model: Model, commit: Commit) -> None:
    model.target.land(replace(commit, version=model.target.head + 1))


def test_a_late_commit_of_a_dropped_build_is_none_of_this_one() -> None:
    model = sealed(times=2)
    at_work = writing(model, CONSUME)
    land(model, late(model))
    assert read(model).phase is Phase.CONSUME_LOG
    assert at_work.finish().applied == V + 2
    land(model, late(model))
    assert Running(model, recover(model.attempt())).finish().applied == V + 2
    assert model.run(CONSUME).applied == V + 2


@pytest.mark.parametrize("epoch", [None, V + 2])
def test_a_late_commit_of_a_dropped_build_is_not_the_build_to_recover(epoch: int | None) -> None:
    """Where transaction ids have expired, only records say which build it is."""
    model = sealed(times=2)
    model.run(CONSUME)
    model._txns.clear()
    land(model, late(model))
    assert Running(model, recover(model.attempt(), epoch)).finish().applied == V + 2


def test_rows_of_a_dropped_build_are_those_of_another_writer() -> None:
    model = sealed(times=2)
    model.run(CONSUME)
    sound = model.target.head
    land(model, late(model, seq=99))
    for _ in range(2):
        with pytest.raises(TargetDiverged, match=f"TO VERSION AS OF {sound}"):
            model.run(CONSUME)
    model.foreign("RESTORE", restored=sound, data_change=True)
    assert Running(model, recover(model.attempt())).finish().applied == V + 2
    assert model.run(CONSUME).applied == V + 2


def test_a_plan_that_is_nowhere_to_be_found_is_an_error_with_a_name() -> None:
    model = sealed()
    model.stored_plan = None
    with pytest.raises(RecordInvalid, match="neither in the target"):
        read(model)


def test_a_record_with_another_pinned_epoch_in_it_is_refused_with_both_plans() -> None:
    model = sealed()
    assert model.stored_plan is not None
    planned = model.stored_plan.fingerprint
    model.stored_plan = replace(model.stored_plan, source=replace(model.stored_plan.source, epoch=8))
    with pytest.raises(RecordInvalid) as raised:
        read(model)
    assert planned in str(raised.value) and model.stored_plan.fingerprint in str(raised.value)


def edited(model: Model, **changes: Any) -> None:
    """Replace fields in the newest record, as an edit by hand would."""
    commit = model.target.commits[-1]
    document = {**json.loads(commit.user_metadata), **changes}
    model.target.commits[-1] = replace(commit, user_metadata=json.dumps(document, separators=(",", ":")))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"positions": [{"splits": 1, "files": 1}, {"splits": 2, "epoch": 7}]}, "split 1"),
        ({"positions": [{"splits": 1, "epoch": epoch} for epoch in (7, 6, 7)]}, "split 1"),
        ({"positions": [{"splits": 2, "epoch": 7}]}, "2 splits, but the plan has 3"),
        ({"positions": [{"splits": 3, "epoch": 6}]}, "before the pinned epoch 7"),
        ({"more": 1}, "missing or unknown fields: more"),
        ({"airflow_backfill": 3}, "format 3"),
    ],
    ids=lambda value: repr(value) if isinstance(value, dict) else "",
)
def test_an_edited_record_is_refused_by_what_is_wrong_with_it(changes: dict[str, Any], said: str) -> None:
    model = sealed()
    edited(model, **changes)
    with pytest.raises(RecordInvalid, match=f"version {model.target.head} of the target: .*{said}"):
        read(model)


def test_a_lane_that_is_not_where_a_record_names_it_is_refused() -> None:
    model = planned(lanes=2)
    model.run(SnapshotGoal(1, 2, ROUND))
    model.run(SnapshotGoal(0, 2, ROUND))
    edited(model, tails=[-1, 1])
    with pytest.raises(RecordInvalid, match="not the barrier of lane 1"):
        read(model)


# --- what is foreign ---

REPLACED = TableMetadata("target-2", SCHEMA)
RESHAPED = TableMetadata(TARGET_ID, json.dumps({"type": "struct", "fields": []}))
WIDER = SCHEMA.replace("[", '[{"name": "note", "type": "string", "nullable": true, "metadata": {}}, ')
FOREIGN: dict[str, dict[str, Any]] = {
    "append": {"operation": "WRITE", "added": FileTotals(1, 1, 1)},
    "delete": {"operation": "DELETE", "removed": FileTotals(1, 1, 1)},
    "restore": {"operation": "RESTORE"},
    "restore of nothing": {"operation": "RESTORE", "data_change": False},
    "clone": {"operation": "CLONE", "data_change": False},
    "replace": {"operation": "CREATE OR REPLACE TABLE AS SELECT", "data_change": False},
    "replace table": {"operation": "REPLACE TABLE", "data_change": False},
    "another table": {"operation": "CREATE TABLE", "data_change": False, "metadata": REPLACED},
    "another schema": {"operation": "ADD COLUMNS", "data_change": False, "metadata": RESHAPED},
    "a commit without an operation": {"operation": ""},
    "another application's": {"operation": "STREAMING UPDATE", "txns": {"query-1": 4}},
}
HARMLESS: dict[str, dict[str, Any]] = {
    "optimize": {"operation": "OPTIMIZE", "rewrites": True},
    "property": {"operation": "SET TBLPROPERTIES", "metadata": TableMetadata(TARGET_ID, SCHEMA, (), {"a": "b"})},
    "vacuum": {"operation": "VACUUM END"},
    "a column more": {"operation": "ADD COLUMNS", "metadata": TableMetadata(TARGET_ID, WIDER)},
    "not null": {"operation": "CHANGE COLUMN", "metadata": TableMetadata(TARGET_ID, SCHEMA.replace("true", "false"))},
}


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("when", ["just planned", "half read", "sealed"])
def test_somebody_elses_rows_end_the_build_and_are_named(name: str, when: str) -> None:
    model = planned()
    if when == "half read":
        model.start(READ).until(CommitRecord, nth=3)
    if when == "sealed":
        model.run(READ)
        model.run(ConsumeLogGoal(ROUND, MaxLag(epochs=9), PATIENCE))
    before = read(model)
    model.foreign(**FOREIGN[name])
    for look in (load(), catch_up(before)):
        with pytest.raises(TargetDiverged) as raised:
            Running(model, look).finish()
        assert raised.value.data["version"] == model.target.head and not raised.value.retry
        way_out = f"RESTORE TABLE delta.`{before.plan.spec.target}` TO VERSION AS OF {model.target.head - 1}, then"
        assert way_out in str(raised.value) and "on_existing='restart'" in str(raised.value)
        moved = "or move this table away and plan" in str(raised.value)
        assert moved is (name == "another table"), "a restart drops no table of another writer"


@pytest.mark.parametrize("name", HARMLESS)
def test_maintenance_by_somebody_else_is_fine(name: str) -> None:
    model = Model()
    before = model.sealed()
    model.foreign(**{"data_change": False, **HARMLESS[name]})
    expected = replace(before, proven=model.target.head)
    assert read(model) == Running(model, catch_up(before)).finish() == expected


def test_an_optimize_that_carries_the_last_record_along_is_no_barrier_and_rows_that_do_are_foreign() -> None:
    """Auto-compaction runs in the session of the round: its commit has that round's user metadata."""
    model = Model()
    before = model.sealed()
    text = model.target.commits[-1].user_metadata
    model.foreign("OPTIMIZE", data_change=False, user_metadata=text)
    assert read(model) == replace(before, proven=model.target.head)
    model.foreign("WRITE", user_metadata=text)
    with pytest.raises(TargetDiverged):
        read(model)


def test_a_barrier_that_landed_on_top_of_a_restore_does_not_count() -> None:
    """RESTORE keeps transaction ids: the next barrier of a running attempt lands as if nothing had happened."""
    model = planned()
    attempt = writing(model, SnapshotGoal(0, 1, RoundSize(100, 100)), 3)
    model.foreign("RESTORE")
    with pytest.raises(TargetDiverged):
        attempt.finish()
    landed = model.target.head
    assert model.records()[-1].seq == 3
    with pytest.raises(TargetDiverged):
        read(model)
    with pytest.raises(TargetDiverged):
        model.run(READ)
    assert model.target.head == landed


def test_the_way_out_of_foreign_rows_leaves_a_barrier_behind_that_landed_on_top_of_them() -> None:
    model = sealed(times=3)
    attempt = writing(model, CONSUME, 2)
    model.foreign("DELETE")
    foreign = model.target.head
    with pytest.raises(TargetDiverged) as first:
        attempt.finish()
    assert model.records()[-1].epochs == EpochRange(V + 1, V + 4)
    with pytest.raises(TargetDiverged) as again:
        read(model)
    for error in (first.value, again.value):
        assert f"TO VERSION AS OF {foreign - 1}, then" in str(error)


def test_what_was_looked_at_once_is_not_read_again() -> None:
    model = Model()
    state = model.sealed()
    model.order(Command(Verb.HOLD))
    model.foreign("OPTIMIZE", data_change=False)
    model.effects.clear()
    again = Running(model, catch_up(state)).finish()
    assert [e.version for e in model.effects if isinstance(e, ReadCommit)] == [model.target.head]
    model.effects.clear()
    assert Running(model, catch_up(again)).finish() is again
    assert not [e for e in model.effects if isinstance(e, ReadCommit)]


def test_a_commit_that_is_gone_before_it_was_looked_at_is_no_good_sign() -> None:
    model = Model()
    state = model.sealed()
    model.foreign("OPTIMIZE", data_change=False)
    model.foreign("OPTIMIZE", data_change=False)
    model.target.gone.add(model.target.head - 1)
    with pytest.raises(HistoryLost):
        Running(model, catch_up(state)).finish()


@pytest.mark.parametrize(
    "files",
    [
        {"added": FileTotals(1, 10, 5)},
        {"added": FileTotals(1, 10, None)},
        {"removed": FileTotals(1, 10, 5)},
        {"added": FileTotals(1, 10, 6), "removed": FileTotals(2, 10, 5)},
        {"added": FileTotals(1, 10, 5), "removed": FileTotals(1, 10, 5, deleted_rows=1)},
    ],
    ids=str,
)
def test_rows_that_come_or_go_without_data_change_are_no_maintenance(files: dict[str, FileTotals]) -> None:
    model = sealed()
    model.foreign("WRITE", data_change=False, rewrites=True, **files)
    with pytest.raises(TargetDiverged, match="dataChange=false"):
        model.state()
    stop = epoch_of(model.draft(), Commit(9, 0, "WRITE", rewrites=True, **files)).stop
    assert isinstance(stop, ChangesIncomplete) and stop.data["epoch"] == 9


def test_maintenance_of_a_table_that_was_dropped_there_is_none() -> None:
    model = sealed()
    files = FileTotals(1, 10, 5)
    model.foreign("OPTIMIZE", data_change=False, rewrites=True, added=files, removed=files, strays=True)
    with pytest.raises(TargetDiverged, match="OPTIMIZE rewrote files that the table never had"):
        model.state()


@pytest.mark.parametrize(
    ("operation", "files"),
    [
        ("OPTIMIZE", {"added": FileTotals(1, 10, 5), "removed": FileTotals(2, 10, 5)}),
        ("REORG", {"added": FileTotals(1, 10, 5), "removed": FileTotals(1, 10, 8, deleted_rows=3)}),
        ("OPTIMIZE", {"added": FileTotals(1, 10, 5), "removed": FileTotals(2, 10, None)}),
        ("COMPUTE STATS", {"added": FileTotals(2, 10, 5)}),
    ],
)
def test_maintenance_keeps_as_many_rows_as_there_were(operation: str, files: dict[str, FileTotals]) -> None:
    model = sealed()
    model.foreign(operation, data_change=False, rewrites=True, **files)
    model.state()
    assert epoch_of(model.draft(), Commit(9, 0, operation, rewrites=True, **files)).stop is None
