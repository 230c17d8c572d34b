from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from demo.delta_rs import DeltaRsEngine
from demo.fold import compare, fold
from demo.journal import Entry, read, resolved
from demo.load import BASE_VERSION
from demo.reading import by_delta_rs
from demo.tpch import LINEITEM, ORDERS, TABLES, rows
from demo.writer import Pace, Summary, open_writer
from tests.demo.reading import by_spark, changes_by_spark

pytestmark = pytest.mark.spark

REPO = Path(__file__).parents[2]
FAST = 10_000.0


def write(raw, tables, journal, commits, *, optimize_after=None, **settings) -> Summary:
    writer = open_writer(raw, tables, journal, report=lambda line: None, **settings)
    return writer.run(Pace(FAST, commits, optimize_after), threading.Event(), threading.Event())


def expected(raw, entries, table, version):
    return list(fold(rows(raw, table), entries, table.name, table.key, version))


def last(tables, table):
    return DeltaTable(tables / table.name).version()


def assert_lawful(spark, raw, tables, entries, table):
    """At every version, the rows before it and the changes that Spark reads make the rows at it."""
    final = last(tables, table)
    changes = defaultdict(list)
    for row in changes_by_spark(spark, tables / table.name, BASE_VERSION + 1, final):
        kind, version = row.pop("_change_type"), row.pop("_commit_version")
        changes[version].append((repr(row), 1 if kind in ("insert", "update_postimage") else -1))
    before = Counter(map(repr, expected(raw, entries, table, BASE_VERSION)))
    for version in range(BASE_VERSION + 1, final + 1):
        for row, sign in changes[version]:
            before[row] += sign
        after = Counter(map(repr, expected(raw, entries, table, version)))
        assert {row: count for row, count in before.items() if count} == after, version
        before = after


def assert_equal(raw, tables, entries):
    for table in TABLES.values():
        version = last(tables, table)
        actual = by_delta_rs(tables / table.name, version)
        difference = compare(expected(raw, entries, table, version), actual, table.key)
        assert difference.equal, f"{table.name}: {difference}"


def start(raw, tables, journal, *arguments):
    command = [sys.executable, "-m", "demo.writer", raw, tables, journal, f"--rate={FAST}", *arguments]
    return subprocess.Popen(list(map(str, command)), cwd=REPO, stdout=subprocess.PIPE, text=True)


@dataclass(frozen=True)
class CommitOutcome:
    """Tables that a writer has changed."""

    engine: str
    names: tuple[str, ...]
    commits: int
    tables: Path = Path()
    entries: tuple[Entry, ...] = ()
    summary: Summary | None = None

    def of(self, name: str) -> list[Entry]:
        return [entry for entry in self.entries if entry.operation.table == name]


LIGHT = CommitOutcome("delta-rs", ("orders", "lineitem"), 40)
HEAVY = CommitOutcome("spark", ("lineitem",), 8)


@pytest.fixture(scope="module", params=[LIGHT, pytest.param(HEAVY, marks=pytest.mark.soak)], ids=["delta-rs", "spark"])
def written(request, spark, raw, loaded, tmp_path_factory) -> CommitOutcome:
    asked: CommitOutcome = request.param
    home = tmp_path_factory.mktemp(asked.engine)
    tables = Path(shutil.copytree(loaded, home / "tables"))
    settings = {"names": asked.names, "engine": asked.engine, "optimize_after": asked.commits // 2}
    summary = write(raw, tables, home / "journal", asked.commits, **settings)
    return replace(asked, tables=tables, entries=tuple(read(home / "journal")), summary=summary)


def test_a_writer_makes_the_commits_it_was_asked_for(written):
    assert {entry.outcome for entry in written.entries} == {"ok"}
    assert written.summary.commits.total() == len(written.entries) == written.commits
    assert set(written.summary.commits) == {"append", "update", "delete", "merge", "optimize"}
    assert written.summary.commits["optimize"] == len(written.names)
    for name in written.names:
        versions = [entry.version for entry in written.of(name)]
        assert versions == list(range(BASE_VERSION + 1, written.summary.versions[name] + 1))
        assert last(written.tables, TABLES[name]) == written.summary.versions[name]


@pytest.mark.soak
def test_the_folded_journal_equals_the_table(spark, raw, written):
    for name in written.names:
        table, at = TABLES[name], written.tables / name
        optimized = next(each.version for each in written.of(name) if each.operation.kind == "optimize")
        for version in (BASE_VERSION + 3, optimized, written.summary.versions[name]):
            wanted = expected(raw, written.entries, table, version)
            for actual in (by_spark(spark, at, version), by_delta_rs(at, version)):
                difference = compare(wanted, actual, table.key)
                assert difference.equal, f"{name} version {version}: {difference}"


@pytest.mark.soak
def test_the_change_feed_is_right_at_every_version(spark, raw, written):
    for name in written.names:
        assert_lawful(spark, raw, written.tables, written.entries, TABLES[name])


def test_deletion_vectors_come_from_spark_and_change_files_from_delta_rs(written):
    found = defaultdict(set)
    for entry in written.entries:
        log = written.tables / entry.operation.table / "_delta_log" / f"{entry.version:020d}.json"
        actions = [json.loads(line) for line in log.read_text().splitlines()]
        found[entry.operation.kind] |= {"change file" for action in actions if "cdc" in action}
        found[entry.operation.kind] |= {"vector" for each in actions if each.get("add", {}).get("deletionVector")}
    if written.engine == "spark":
        assert found["delete"] == {"vector"}
        assert found["update"] == found["merge"] == {"vector", "change file"}
    else:
        assert found["delete"] == found["update"] == found["merge"] == {"change file"}
    assert found["append"] == found["optimize"] == set()


@pytest.mark.parametrize("kind", ["append", "update", "delete", "merge"])
def test_one_operation_that_the_journal_lacks_is_found(raw, written, kind):
    table = TABLES[written.names[-1]]
    dropped = [each for each in written.of(table.name) if each.operation.kind == kind][-1]
    kept = [each for each in written.entries if each is not dropped]
    actual = by_delta_rs(written.tables / table.name, dropped.version)
    difference = compare(expected(raw, kept, table, dropped.version), actual, table.key)
    upserted = {tuple(row[column] for column in table.key) for row in dropped.operation.upserts}
    assert {*difference.extra, *difference.stale} == upserted
    assert {*difference.missing} == {*dropped.operation.deletes}
    if kind in ("append", "update"):
        assert not (difference.stale if kind == "append" else difference.extra)


def test_only_the_table_asked_for_is_written(raw, tables, tmp_path):
    summary = write(raw, tables, tmp_path / "journal", 7, names=(LINEITEM.name,))
    assert summary.versions == {LINEITEM.name: BASE_VERSION + 7}
    assert DeltaTable(tables / ORDERS.name).version() == BASE_VERSION


def test_a_second_writer_goes_on_where_the_first_ended(raw, loaded, tables, tmp_path):
    for commits in (5, 1, 9):
        write(raw, tables, tmp_path / "journal", commits)
    whole = Path(shutil.copytree(loaded, tmp_path / "whole"))
    write(raw, whole, tmp_path / "whole-journal", 15)
    pieces, at_once = read(tmp_path / "journal"), read(tmp_path / "whole-journal")
    assert [(each.operation, each.version) for each in pieces] == [(each.operation, each.version) for each in at_once]
    with pytest.raises(ValueError, match="other settings"):
        write(raw, tables, tmp_path / "journal", 1, seed=2)


@pytest.mark.parametrize("lost", ["the answer", "the commit"])
def test_an_operation_whose_end_nobody_recorded_is_settled(raw, tables, tmp_path, lost):
    journal = tmp_path / "journal"
    write(raw, tables, journal, 6)
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-1]))
    *_, last = read(journal)
    assert (last.outcome, last.operation.kind) == ("unknown", "delete")
    if lost == "the commit":
        (tables / LINEITEM.name / "_delta_log" / f"{BASE_VERSION + 3:020d}.json").unlink()
    write(raw, tables, journal, 4)
    entries = read(journal)
    settled = next(each for each in entries if each.number == last.number)
    again = [each.number for each in entries if each.operation == last.operation and each is not settled]
    if lost == "the commit":
        assert (settled.outcome, settled.version, again) == ("failed", None, [last.number + 1])
    else:
        assert (settled.outcome, settled.version, again) == ("ok", BASE_VERSION + 3, [])
    assert_equal(raw, tables, entries)


def test_a_killed_writer_can_be_followed_by_another(raw, tables, tmp_path):
    process = start(raw, tables, tmp_path / "journal")
    assert len(list(islice(process.stdout, 11))) == 11
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    found = list(resolved(read(tmp_path / "journal"), tables))
    assert {each.outcome for each in found[:11]} == {"ok"}
    write(raw, tables, tmp_path / "journal", 20)
    assert_equal(raw, tables, read(tmp_path / "journal"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_ask_for_an_optimize_and_for_the_end(raw, tables, tmp_path, number):
    process = start(raw, tables, tmp_path / "journal", "--optimize-after=0")
    assert len(list(islice(process.stdout, 8))) == 8
    process.send_signal(signal.SIGUSR1)
    compacted = [next(line for line in process.stdout if "optimize" in line) for _ in TABLES]
    assert ["orders" in compacted[0], "lineitem" in compacted[1]] == [True, True]
    process.send_signal(number)
    *_, summary = process.communicate(timeout=60)[0].splitlines()
    entries = read(tmp_path / "journal")
    assert process.returncode == 0
    assert {each.outcome for each in entries} == {"ok"}
    assert summary.startswith(f"{sum(each.version is not None for each in entries)} commits (")
    assert summary.endswith(f"orders at v{last(tables, ORDERS)}, lineitem at v{last(tables, LINEITEM)}")
    assert_equal(raw, tables, entries)


def test_an_optimize_with_nothing_to_do_is_asked_for_once(raw, tables, tmp_path):
    optimize = threading.Event()
    optimize.set()
    writer = open_writer(raw, tables, tmp_path / "journal", report=lambda line: None)
    summary = writer.run(Pace(FAST, 5, None), threading.Event(), optimize)
    found = [(each.operation.table, each.outcome, each.version) for each in read(tmp_path / "journal")]
    assert found[:2] == [("orders", "ok", None), ("lineitem", "ok", None)]
    assert (len(found), summary.commits) == (7, {"append": 2, "update": 2, "delete": 1})


def test_the_rate_is_not_exceeded(raw, tables, tmp_path):
    writer = open_writer(raw, tables, tmp_path / "journal", report=lambda line: None)
    summary = writer.run(Pace(rate=5, commits=6), threading.Event(), threading.Event())
    assert summary.seconds >= 5 / 5


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan")])
def test_a_rate_that_never_commits_is_refused(rate):
    with pytest.raises(ValueError, match="above 0"):
        Pace(rate)


class Overtaken(DeltaTable):
    """A table that somebody else rewrites, without changing it, after each of the first looks at it."""

    times = 1

    def update_incremental(self):
        super().update_incremental()
        if self.times > 0:
            self.times -= 1
            DeltaTable(self.table_uri).optimize.z_order([ORDERS.order_key])


@pytest.fixture
def overtaken(raw, tables, tmp_path):
    """A writer whose next operation is a delete, and the table that others rewrite meanwhile."""
    write(raw, tables, tmp_path / "journal", 2, names=(ORDERS.name,))
    writer = open_writer(raw, tables, tmp_path / "journal", names=(ORDERS.name,), report=lambda line: None)
    writer._engine._tables[ORDERS.name] = Overtaken(tables / ORDERS.name)
    return writer, writer._engine._tables[ORDERS.name]


def test_an_operation_that_lost_to_another_commit_is_tried_again(raw, tables, tmp_path, overtaken):
    summary = overtaken[0].run(Pace(FAST, 1), threading.Event(), threading.Event())
    assert (summary.retries, summary.commits) == (1, {"delete": 1})
    entries = read(tmp_path / "journal")
    assert [(each.operation.kind, each.outcome) for each in entries[2:]] == [
        ("delete", "failed"),
        ("delete", "ok"),
    ]
    assert entries[-1].version == BASE_VERSION + 4
    assert_equal(raw, tables, entries)


def test_an_operation_that_always_loses_ends_the_writer(tmp_path, overtaken):
    writer, table = overtaken
    table.times = 100
    with pytest.raises(RuntimeError, match="lost against other commits 5 times"):
        writer.run(Pace(FAST, 1), threading.Event(), threading.Event())
    assert [each.outcome for each in read(tmp_path / "journal")[2:]] == ["failed"] * 5


class Deaf(DeltaRsEngine):
    """Its commits land, and it is told that they did not."""

    def apply(self, operation, marker):
        super().apply(operation, marker)
        raise CommitFailedError("no answer")


def test_a_commit_that_landed_without_an_answer_is_not_repeated(raw, tables, tmp_path):
    writer = open_writer(raw, tables, tmp_path / "journal", report=lambda line: None)
    writer._engine = Deaf(tables)
    summary = writer.run(Pace(FAST, 4), threading.Event(), threading.Event())
    assert (summary.retries, summary.versions) == (0, dict.fromkeys(TABLES, BASE_VERSION + 2))
    assert_equal(raw, tables, read(tmp_path / "journal"))
