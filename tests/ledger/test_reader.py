from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import deltalake
import pytest

from airflow_backfill.core.attempts.goals import SnapshotGoal
from airflow_backfill.core.attempts.recovery import recover
from airflow_backfill.core.errors import (
    HistoryLost,
    NotPlanned,
    RecordInvalid,
    TargetDiverged,
    UnsupportedTable,
)
from airflow_backfill.core.state.drive import drive
from airflow_backfill.core.state.effect import CommitRecord, ReadHead
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.commit import Commit, FileTotals, Protocol, TableMetadata
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.core.values.phase import Phase
from airflow_backfill.ledger.admission import OWNER
from airflow_backfill.ledger.control_folder import SUFFIX
from airflow_backfill.ledger.open_source import glance_at_source, watch_source
from airflow_backfill.ledger.reader import BuildReader
from tests.core.model_target import ROUND, SCHEMA, Model
from tests.core.running import Running
from tests.core.tasks import CANCEL, CATCH_UP, CONSUME, FINISH, READ, VERIFY, V, follow
from tests.ledger.json_target import JsonBuild, JsonLog, commit_file, forget

Run = Callable[..., str]


def read(build: JsonBuild) -> BuildState:
    return BuildReader(build.location).state()


def test_the_state_is_read_from_the_files_in_every_phase(build: JsonBuild) -> None:
    """As the very same attempts leave it in a model that lives in memory."""
    model = Model()
    steps: list[tuple[Phase, Callable[[Any], Any]]] = [
        (Phase.SNAPSHOT, lambda b: b.plan()),
        (Phase.SNAPSHOT, lambda b: b.run(READ)),
        (Phase.CONSUME_LOG, lambda b: (b.write(times=3), b.run(CONSUME))),
        (Phase.CATCH_UP, lambda b: b.run(CATCH_UP)),
        (Phase.CATCH_UP, lambda b: b.run(VERIFY)),
        (Phase.FINISHED, lambda b: b.run(FINISH)),
        (Phase.UPSTREAM, lambda b: (b.write(), b.run(follow(V + 4)))),
    ]
    for phase, step in steps:
        step(build)
        step(model)
        found = read(build)
        expected = model.state()
        assert found.phase is expected.phase is phase
        assert (found.positions, found.applied, found.totals) == (expected.positions, expected.applied, expected.totals)
        assert (found.handoff, found.proven) == (expected.handoff, expected.proven)


def test_a_cancelled_build_is_read_as_such(build: JsonBuild) -> None:
    build.plan()
    build.order(Command(Verb.CANCEL))
    build.run(CANCEL)
    assert read(build).phase is Phase.CANCELLED


def test_a_lost_control_folder_loses_nothing_of_the_state(build: JsonBuild) -> None:
    """The plan is found in the log."""
    sealed = build.sealed()
    shutil.rmtree(build.location + SUFFIX)
    reader = BuildReader(build.location)
    assert reader.state() == sealed and reader.commands(sealed.plan.build) == []


def test_with_the_control_folder_gone_the_next_attempt_is_the_newest_all_the_same(build: JsonBuild) -> None:
    build.plan(lanes=2)
    for _ in range(5):
        build.start(SnapshotGoal(0, 2, ROUND)).until(CommitRecord, nth=2)
    build.run(SnapshotGoal(1, 2, ROUND))
    shutil.rmtree(build.location + SUFFIX)
    state = build.run(SnapshotGoal(0, 2, ROUND))
    assert state.sealed
    assert state.generation(0) == 8, "seven were drawn before"


def test_no_attempt_is_drawn_below_a_record_that_cannot_be_read(build: JsonBuild) -> None:
    build.caught_up()
    me, record = build.reader.draw_attempt({}), build.state().newest
    assert record is not None
    damaged = {**record.record.to_json(), "generation": 70, "positions": "nowhere"}
    build.foreign("WRITE", txns={record.record.app_id: 99}, user_metadata=json.dumps(damaged), data_change=False)
    shutil.rmtree(build.location + SUFFIX)
    assert (me.generation < 70, build.reader.draw_attempt({}).generation) == (True, 71)


def test_a_plan_that_is_nowhere_any_more_is_an_error_with_a_name(build: JsonBuild) -> None:
    build.sealed()
    shutil.rmtree(build.location + SUFFIX)
    forget(build.target, build.location, 1)
    with pytest.raises(RecordInvalid, match="neither in the target"):
        read(build)


def test_the_plan_is_read_once(build: JsonBuild) -> None:
    sealed = build.sealed()
    reader = BuildReader(build.location)
    reader.state()
    shutil.rmtree(build.location + SUFFIX)
    forget(build.target, build.location, 1)
    assert reader.state() == sealed


def test_a_copy_of_the_plan_that_is_damaged_is_not_needed(build: JsonBuild) -> None:
    sealed = build.sealed()
    next(Path(build.location + SUFFIX, "plans").iterdir()).write_text("{")
    assert read(build) == sealed


def test_a_recovery_needs_no_command_that_cannot_be_read(build: JsonBuild) -> None:
    build.caught_up()
    build.order(Command(Verb.PAUSE))
    Path(build.location + SUFFIX, "commands", "000000002.json").write_text("{")
    with pytest.raises(RecordInvalid, match=r"000000002\.json"):
        build.run(VERIFY)
    state: BuildState = Running(build, recover(build.attempt(), V)).finish()
    assert (state.handoff, state.control.number) == (V, 0)


def test_a_copy_of_the_plan_that_was_edited_is_refused(build: JsonBuild) -> None:
    build.sealed()
    copy = next(Path(build.location + SUFFIX, "plans").iterdir())
    document = json.loads(copy.read_text())
    document["source"]["epoch"] += 1
    copy.write_text(json.dumps(document))
    with pytest.raises(RecordInvalid, match="plan"):
        read(build)


def test_no_table_is_not_a_build() -> None:
    with pytest.raises(NotPlanned, match="none was planned, or its target was dropped"):
        BuildReader("/nothing").state()


def test_a_table_without_a_plan_of_that_build_is_not_planned(build: JsonBuild) -> None:
    with pytest.raises(NotPlanned, match="not made by a table backfill"):
        BuildReader(build.spec.source).state()
    with pytest.raises(NotPlanned):
        read(build)
    build.sealed()
    with pytest.raises(NotPlanned):
        BuildReader(build.location).state("b2")


def test_a_target_that_lost_its_name_is_told_from_one_that_was_replaced(build: JsonBuild) -> None:
    """The name of a build on another writer's table would be taken for a right to drop it."""
    build.sealed()
    good = build.target.head
    build.set_properties()
    with pytest.raises(NotPlanned, match=f"SET TBLPROPERTIES .'{OWNER}' = 'orders'"):
        read(build)
    build.foreign("CREATE OR REPLACE TABLE AS SELECT", metadata=TableMetadata("another", SCHEMA))
    with pytest.raises(TargetDiverged, match=f"TO VERSION AS OF {good + 1}, .* move this table away"):
        read(build)


def test_a_table_in_the_place_of_a_dropped_target_gets_no_name(build: JsonBuild) -> None:
    build.sealed()
    shutil.rmtree(build.location)
    created = Commit(0, operation="CREATE TABLE", metadata=TableMetadata("another", SCHEMA), protocol=Protocol(1, 2))
    JsonLog(build.location).land(created)
    with pytest.raises(NotPlanned, match="another table stands"):
        read(build)


unreadable = pytest.mark.parametrize(
    ("protocol", "named"),
    [
        (Protocol(4, 7), "reader version 4"),
        (Protocol(3, 8), "writer version 8"),
        (Protocol(3, 7, frozenset({"timeMachine"}), frozenset({"timeMachine"})), "timeMachine"),
        (Protocol(3, 7, frozenset(), frozenset({"catalogManaged"})), "catalogManaged"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)


@unreadable
def test_a_protocol_that_cannot_be_read_is_named_before_any_record_is(
    protocol: Protocol, named: str, build: JsonBuild
) -> None:
    build.sealed()
    build.foreign("UPGRADE PROTOCOL", data_change=False, protocol=protocol)
    with pytest.raises(UnsupportedTable, match=named):
        read(build)


@unreadable
def test_a_source_that_may_hide_its_newest_commits_since_is_not_taken_for_a_silent_one(
    protocol: Protocol, named: str, build: JsonBuild
) -> None:
    watcher = watch_source(build.plan())
    assert watcher.view(V).head == watcher.glance(V).head == V
    build._commit_source("UPGRADE PROTOCOL", protocol=protocol)
    for look in (watcher.view, watcher.glance, partial(glance_at_source, build.draft())):
        with pytest.raises(UnsupportedTable, match=f"the source {build.spec.table}.* {named}"):
            look(V)


def test_rows_of_somebody_else_are_seen(build: JsonBuild) -> None:
    build.sealed()
    build.foreign("WRITE", added=FileTotals(1, 1, 1))
    with pytest.raises(TargetDiverged):
        read(build)


def test_a_target_that_was_copied_or_moved_is_a_build_of_its_own_there(build: JsonBuild, tmp_path: Path) -> None:
    """Nobody who looks at the copy, or does what an error of it says, must reach the table where it was planned."""
    build.finished()
    place = str(tmp_path / "elsewhere")
    for end in "", SUFFIX:
        shutil.copytree(f"{build.location}{end}", f"{place}{end}")
    there, here = BuildReader(place).state(), build.state()
    assert (there.plan.spec.target, here.plan.spec.target) == (place, build.location)
    assert (there.plan.fingerprint, there.plan.encode()) == (here.plan.fingerprint, here.plan.encode())
    copied = JsonLog(place)
    copied.land(replace(copied.read(copied.head), version=copied.head + 1, data_change=True, added=FileTotals(1, 5, 5),
                        operation="WRITE", user_metadata=None, txns={}))  # fmt: skip
    with pytest.raises(TargetDiverged, match=f"RESTORE TABLE delta.`{place}`.*recover {place} "):
        BuildReader(place).state()


def test_a_damaged_commit_is_not_taken_for_the_end_of_the_log(build: JsonBuild) -> None:
    build.sealed()
    newest = commit_file(build.location, build.target.head)
    newest.write_text(newest.read_text()[:-40])
    with pytest.raises(RecordInvalid):
        read(build)


def test_a_reader_does_not_write(build: JsonBuild) -> None:
    build.plan()
    attempt = build.start(READ)
    effect = attempt.until(CommitRecord)
    with pytest.raises(TypeError):
        build.reader.answer(effect)


def test_errors_of_an_answer_are_raised_where_they_can_be_handled() -> None:
    def asks_twice() -> Any:
        try:
            yield from ReadHead()
        except HistoryLost:
            return (yield from ReadHead())

    answers = iter([HistoryLost("gone"), 7])

    def answer(_: Any) -> Any:
        found = next(answers)
        if isinstance(found, Exception):
            raise found
        return found

    assert drive(asks_twice(), answer) == 7


def test_the_tables_are_ones_to_other_readers(build: JsonBuild) -> None:
    build.finished()
    target = deltalake.DeltaTable(build.location)
    assert target.version() == build.target.head
    last = build.records()[-1]
    assert target.transaction_version(last.app_id) == last.seq
