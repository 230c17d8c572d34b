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
    SourceNotDelta,
    SourceReplaced,
    TargetDiverged,
    UnsupportedTable,
)
from airflow_backfill.core.source.identity import check_source
from airflow_backfill.core.source.source_log import SourceWatch
from airflow_backfill.core.state.drive import drive
from airflow_backfill.core.state.effect import CommitRecord, ReadHead
from airflow_backfill.core.state.state import BuildState
from airflow_backfill.core.values.commit import CommitId, FileTotals, Protocol, TableMetadata
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.core.values.phase import Phase
from airflow_backfill.ledger.control_folder import SUFFIX
from airflow_backfill.ledger.log_listing import commit_name
from airflow_backfill.ledger.open_source import glance_at_source, watch_source
from airflow_backfill.ledger.reader import BuildReader
from tests.core.model_target import ROUND, SCHEMA, Model
from tests.core.running import Running
from tests.core.tasks import CANCEL, CATCH_UP, CONSUME, FINISH, READ, VERIFY, V, follow
from tests.ledger.json_target import JsonBuild, JsonLog
from tests.ledger.process_cost import bytes_read

Run = Callable[..., str]


@pytest.fixture
def build(tmp_path: Path) -> JsonBuild:
    return JsonBuild(tmp_path)


def commit_file(table: str, version: int) -> Path:
    return Path(table, "_delta_log", commit_name(version))


def forget(log: JsonLog, table: str, *versions: int) -> None:
    """The log is cleaned up: these commits are gone, and a checksum says what they said of the table."""
    log.write_checksum()
    for version in versions:
        commit_file(table, version).unlink()


def read(build: JsonBuild) -> BuildState:
    return BuildReader(build.location).state()


# --- the state of a build ---


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


# --- the source ---


@pytest.fixture
def watcher(build: JsonBuild) -> SourceWatch:
    return watch_source(build.plan())


def numbers(view: Any) -> list[int]:
    return [epoch.number for epoch in view.epochs]


def test_a_view_holds_every_epoch_after_the_applied_one(build: JsonBuild, watcher: SourceWatch) -> None:
    assert numbers(watcher.view(V)) == []
    build.write(rows=5, size=70)
    build.optimize()
    build.write(rows=2)
    view = watcher.view(V)
    assert (view.head, view.after, numbers(view)) == (V + 3, V, [8, 9, 10])
    assert [(e.rows, e.bytes) for e in view.epochs] == [(5, 70), (0, 0), (2, 1)]
    assert numbers(watcher.view(9)) == [10]


def test_asking_again_at_any_time_gives_what_asking_once_would(build: JsonBuild, watcher: SourceWatch) -> None:
    for after in (7, 7, 8, 8, 10, 12):
        build.write()
        assert watcher.view(after) == watch_source(build.draft()).view(after)


def with_columns(*names: str) -> str:
    schema = json.loads(SCHEMA)
    schema["fields"] += [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in names]
    return json.dumps(schema)


def test_a_column_stops_a_build_at_the_epoch_that_adds_it_and_at_none_after_it(
    build: JsonBuild, watcher: SourceWatch
) -> None:
    """Somebody has let the build go on since. Each later commit with metadata repeats the column."""
    for columns in ("x",), ("x",), ("x", "y"), ("y",), ("x", "y"):
        build.alter(schema_json=with_columns(*columns))
        watcher.view(V)
        build.write()
    assert with_stop(watcher.view(V)) == with_stop(watch_source(build.draft()).view(V)) == [8, 12, 16]
    for after, stops in ((8, [12, 16]), (9, [12, 16]), (12, [16]), (16, [])):
        anew = watch_source(build.draft())
        assert with_stop(watcher.view(after)) == with_stop(anew.view(after)) == stops
        first = anew.stopped(anew.glance(after), after).stops
        assert (first and first.number) == next(iter(stops), None)


def test_a_column_stops_a_build_where_nothing_tells_whether_it_is_new(build: JsonBuild) -> None:
    build.plan()
    for schema in (with_columns("x"), "damaged", with_columns("x")):
        build.alter(schema_json=schema)
    assert with_stop(watch_source(build.draft()).view(8)) == [9, 10]
    build.alter(schema_json=with_columns("x"))
    assert with_stop(watch_source(build.draft()).view(10)) == []
    forget(build.source, build.spec.table, 10)
    assert with_stop(watch_source(build.draft()).view(10)) == [11]


def with_stop(view: Any) -> list[int]:
    return [epoch.number for epoch in view.epochs if epoch.stop is not None]


def test_a_view_from_an_earlier_epoch_has_no_hole(build: JsonBuild, watcher: SourceWatch) -> None:
    build.write(times=5)
    watcher.view(10)
    assert numbers(watcher.view(V)) == [8, 9, 10, 11, 12]


def test_a_commit_is_read_once_and_none_of_its_data_ever(build: JsonBuild, watcher: SourceWatch) -> None:
    build.write(times=300)
    build.source.write_checksum()
    before = bytes_read()
    watcher.view(V)
    first = bytes_read() - before
    before = bytes_read()
    watcher.view(V)
    assert bytes_read() - before < first / 10


@pytest.mark.parametrize("gone", [[8], [10], [12], [9, 10]])
def test_a_hole_in_the_log_is_an_epoch_that_says_so(gone: list[int], build: JsonBuild, watcher: SourceWatch) -> None:
    build.write(times=6)
    forget(build.source, build.spec.source, *gone)
    view = watcher.view(V)
    assert numbers(view) == [8, 9, 10, 11, 12, 13]
    stops = {e.number: e.stop for e in view.epochs if e.stop is not None}
    assert sorted(stops) == gone
    assert all(isinstance(stop, HistoryLost) and stop.data == {"epoch": n} for n, stop in stops.items())
    if gone[0] == 8:
        with pytest.raises(HistoryLost):
            check_source(build.draft(), view, V, ())


def test_a_view_names_the_commits_and_reads_a_put_back_log_anew(build: JsonBuild, watcher: SourceWatch) -> None:
    """What a watcher remembers of commits that are others now would pass for what is there."""
    build.write(rows=5, times=4)
    before = watcher.view(V)
    assert before.commit(V) == CommitId(V, build.source.read(V).digest or "")
    assert before.commit(V + 4) == CommitId(V + 4, build.source.read(V + 4).digest or "")
    assert before.commit(V + 5) is None and before.commit(V - 1) is None
    for version in range(9, 12):
        commit_file(build.spec.source, version).unlink()
    assert numbers(watcher.view(V)) == [8]
    build.write(rows=9, times=5)
    after = watcher.view(V)
    assert [e.rows for e in after.epochs] == [5, 9, 9, 9, 9, 9]
    assert after.commit(V) == before.commit(V) and after.commit(V + 4) != before.commit(V + 4)
    forget(build.source, build.spec.source, V)
    assert watcher.view(V).commit(V) is None


def test_a_log_that_was_cleaned_up_keeps_its_place(build: JsonBuild, watcher: SourceWatch) -> None:
    build.write(times=6)
    forget(build.source, build.spec.source, *range(10))
    view = watcher.view(V)
    assert numbers(view) == [8, 9, 10, 11, 12, 13]
    assert [e.number for e in view.epochs if e.stop is not None] == [8, 9]


def test_another_table_in_the_place_shows_its_id_and_none_of_its_epochs(build: JsonBuild, watcher: SourceWatch) -> None:
    shutil.rmtree(build.spec.source)
    log, first = build._source_log(), build.target.read(0)
    log.land(replace(first, metadata=TableMetadata("source-2", SCHEMA), protocol=Protocol(1, 2)))
    for version in range(1, 20):
        log.land(replace(first, version=version, metadata=None, protocol=None))
    view = watcher.view(V)
    assert (view.table_id, view.head, numbers(view)) == ("source-2", 19, [])
    with pytest.raises(SourceReplaced):
        check_source(build.draft(), view, V, ())


def test_a_table_that_was_replaced_in_its_own_log_is_seen_too(build: JsonBuild, watcher: SourceWatch) -> None:
    build.write()
    build.alter(table_id="source-2")
    with pytest.raises(SourceReplaced):
        check_source(build.draft(), watcher.view(V), V, ())


def test_a_source_that_is_gone_is_no_silent_one(build: JsonBuild, watcher: SourceWatch) -> None:
    shutil.rmtree(build.spec.source)
    with pytest.raises(SourceNotDelta):
        watcher.view(V)


def test_a_schema_change_is_seen_at_its_epoch(build: JsonBuild, watcher: SourceWatch) -> None:
    build.write()
    build.alter(schema_json='{"type":"struct","fields":[]}')
    assert [e.stop and e.stop.code for e in watcher.view(V).epochs] == [None, "SCHEMA_CHANGED"]


WATCH = """
import json, sys
from airflow_backfill.core.model.plan import Plan
from airflow_backfill.ledger.open_source import glance_at_source, watch_source
from airflow_backfill.ledger.reader import BuildReader
from tests.ledger.process_cost import peak_kilobytes
plan = BuildReader(sys.argv[1]).plan(sys.argv[2])
watcher = watch_source(plan)
before = peak_kilobytes()
view = watcher.view(plan.source.epoch)
print(json.dumps({"epochs": len(view.epochs), "rows": sum(e.rows for e in view.epochs),
                  "kilobytes": peak_kilobytes() - before}))
"""


@pytest.mark.slow
def test_ten_thousand_commits_are_watched_in_a_few_megabytes(build: JsonBuild, run: Run) -> None:
    """A fraction of a kilobyte for each commit, however many files it holds."""
    plan = build.plan()
    log = Path(build.spec.source, "_delta_log")
    adds = "".join(
        json.dumps({"add": {"path": f"f-{n}", "partitionValues": {}, "size": 10, "modificationTime": 0,
                            "dataChange": True, "stats": '{"numRecords":2}'}}) + "\n"
        for n in range(20)
    )  # fmt: skip
    for version in range(V + 1, V + 10_001):
        (log / commit_name(version)).write_text('{"commitInfo":{"timestamp":5,"operation":"WRITE"}}\n' + adds)
    build.source.write_checksum()
    measured = json.loads(run(WATCH, build.location, plan.build))
    print(measured)
    assert (measured["epochs"], measured["rows"]) == (10_000, 400_000)
    assert measured["kilobytes"] < 12_000
