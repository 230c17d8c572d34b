from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_backfill.core.errors import HistoryLost, SourceNotDelta, SourceReplaced
from airflow_backfill.core.source.identity import check_source
from airflow_backfill.core.source.source_log import SourceWatch
from airflow_backfill.core.values.commit import CommitId, Protocol, TableMetadata
from airflow_backfill.ledger.log_listing import commit_name
from airflow_backfill.ledger.open_source import watch_source
from tests.core.model_target import SCHEMA
from tests.core.tasks import V
from tests.ledger.json_target import JsonBuild, commit_file, forget
from tests.ledger.process_cost import bytes_read

Run = Callable[..., str]


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
