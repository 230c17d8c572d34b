from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_backfill.core.errors import HistoryLost, RecordInvalid, SourceNotDelta
from airflow_backfill.core.state.effect import ReadCommit
from airflow_backfill.core.values.commit import Protocol, TableMetadata
from airflow_backfill.ledger import delta_log
from airflow_backfill.ledger.delta_log import DeltaLog
from airflow_backfill.ledger.local_store import LocalStore
from airflow_backfill.ledger.reader import BuildReader

TEXT, NUMBER, TEXTS = pa.string(), pa.int32(), pa.list_(pa.string())
ACTIONS = pa.schema(
    {
        "add": pa.struct({"path": TEXT}),
        "metaData": pa.struct(
            {"id": TEXT, "schemaString": TEXT, "partitionColumns": TEXTS, "configuration": pa.map_(TEXT, TEXT)}
        ),
        "protocol": pa.struct(
            {"minReaderVersion": NUMBER, "minWriterVersion": NUMBER, "readerFeatures": TEXTS, "writerFeatures": TEXTS}
        ),
    }
)
"""The columns of a checkpoint that are read."""

WriteLog = Callable[[Mapping[str, bytes | str]], Path]
Run = Callable[..., str]

UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"
NEW = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"], "writerFeatures": ["x"]}
OLD = {"minReaderVersion": 1, "minWriterVersion": 2}


def name(version: int, kind: str = "json") -> str:
    return f"{version:020}.{kind}"


def text(*actions: dict[str, Any]) -> str:
    return "".join(json.dumps(action) + "\n" for action in actions)


def metadata(table_id: str) -> dict[str, Any]:
    return {"id": table_id, "schemaString": "{}", "partitionColumns": ["p"], "configuration": {"k": table_id}}


def append(version: int) -> str:
    return text({"commitInfo": {"operation": "WRITE"}}, {"txn": {"appId": "a", "version": version}})


def commits(first: int, end: int) -> dict[str, bytes | str]:
    """The commits of versions ``first`` to ``end - 1``; version 0 makes the table."""
    files: dict[str, bytes | str] = {name(version): append(version) for version in range(first, end)}
    if first == 0:
        files[name(0)] = text({"protocol": OLD}, {"metaData": metadata("t0")})
    return files


def checksum(table_id: str, protocol: dict[str, Any] = NEW) -> str:
    return json.dumps({"numFiles": 1, "metadata": metadata(table_id), "protocol": protocol})


def checkpoint(*actions: dict[str, Any]) -> bytes:
    sink = BytesIO()
    pq.write_table(pa.Table.from_pylist(list(actions), schema=ACTIONS), sink)
    return sink.getvalue()


def rows_of(table_id: str, protocol: dict[str, Any]) -> list[dict[str, Any]]:
    fields = metadata(table_id)
    return [
        {"add": {"path": "f"}},
        {"metaData": fields | {"configuration": list(fields["configuration"].items())}},
        {"add": {"path": "g"}},
        {"protocol": protocol},
    ]


def log(table: Path) -> DeltaLog:
    return DeltaLog(LocalStore(str(table)))


def state(table_id: str, protocol: dict[str, Any]) -> tuple[Protocol, TableMetadata]:
    features = (frozenset(protocol.get(kind, ())) for kind in ("readerFeatures", "writerFeatures"))
    numbers = protocol["minReaderVersion"], protocol["minWriterVersion"]
    return Protocol(*numbers, *features), TableMetadata(table_id, "{}", ("p",), {"k": table_id})


def test_head_and_versions_of_a_plain_log(write_log: WriteLog) -> None:
    others = {name(20, "json.tmp"): "", name(14, "crc"): "{}", f"{0:020}.{9:020}.compacted.json": "{}"}
    table = write_log(commits(0, 12) | others | {f"_staged_commits/{name(13)}": "{}"})
    assert log(table).head() == 11
    assert [log(table).versions(after) for after in (-1, 9, 11)] == [list(range(12)), [10, 11], []]


def test_a_log_that_grows_is_read_anew(write_log: WriteLog) -> None:
    following = log(write_log(commits(0, 3)))
    assert following.head() == 2
    write_log(commits(3, 5))
    assert following.head() == 4 and following.versions(2) == [3, 4]


def test_holes_are_told_as_they_are(write_log: WriteLog) -> None:
    table = write_log(commits(4, 7) | commits(8, 10) | {name(5, "checkpoint.parquet"): b""})
    assert log(table).versions(-1) == [4, 5, 6, 8, 9]
    with pytest.raises(HistoryLost, match="version 7 was deleted") as raised:
        log(table).read(7)
    assert raised.value.data == {"version": 7, "file": name(7)}
    walk = log(table).newest_first()
    assert [next(walk).version, next(walk).version] == [9, 8]
    with pytest.raises(HistoryLost, match="version 7"):
        next(walk)


def test_newest_first_reads_only_what_is_asked_for(write_log: WriteLog) -> None:
    table = write_log(commits(0, 5) | {name(1): '{"add":{"si'})
    walk = log(table).newest_first()
    assert [next(walk).version for _ in range(3)] == [4, 3, 2]
    assert [commit.txns for commit in log(table).newest_first(3)] == [{"a": 4}, {"a": 3}]
    with pytest.raises(RecordInvalid, match=r"version 1 is damaged: line 1"):
        next(walk)


def test_a_file_is_found_where_it_was_added_first(write_log: WriteLog) -> None:
    added, removed = {"add": {"path": "p=1/f-1.parquet"}}, {"remove": {"path": "p=1/f-2.parquet"}}
    known = commits(0, 6) | {name(1): "no json", name(2): text(removed), name(3): text(removed, added)}
    table = write_log(known | {name(4): text(added, {"add": {"path": "f-2.parquet"}})})
    assert [log(table).first_adding(f"f-{n}.parquet") for n in range(1, 4)] == [3, 4, None]


def add(path: str) -> dict[str, Any]:
    return {"add": {"path": path}}


def remove(path: str) -> dict[str, Any]:
    return {"remove": {"path": path}}


@pytest.mark.parametrize(
    ("gone", "first"),
    [
        (("new",), 5),
        (("new", "old"), 2),
        (("new", "p=1 2/in"), 3),
        (("new", "again"), 2),
        (("new", "replaced"), 5),
        (("new", "newer"), 5),
        (("nobody",), None),
    ],
)
def test_a_table_goes_back_behind_all_files_that_it_has_lost(
    write_log: WriteLog, gone: tuple[str, ...], first: int | None
) -> None:
    """One after another, each would be found by a round that fails. A file that was replaced may be gone."""
    history = {
        name(2): text(add("old"), add("again"), add("replaced")),
        name(3): text(add("p=1%202/in")),
        name(4): text(remove("replaced"), remove("again"), add("again")),
        name(5): text(add("new")),
        name(6): text(add("newer")),
    }
    table = write_log(commits(0, 6) | history)
    for file in ("old", "again", "p=1 2/in", "new", "newer"):
        if file not in gone:
            place = Path(table, file)
            place.parent.mkdir(exist_ok=True)
            place.touch()
    assert log(table).first_lost(gone[0]) == first


@pytest.mark.parametrize(
    ("kinds", "dropped"),
    [("a", False), ("ar", True), ("a+r", False), ("ara", False), ("arar", True), ("r", True)],
)
def test_a_file_is_dropped_if_no_commit_adds_it_again(write_log: WriteLog, kinds: str, dropped: bool) -> None:
    """a+r: one commit does both, because the file got another deletion vector."""
    actions = {kind: {word: {"path": "f.parquet"}} for kind, word in (("a", "add"), ("r", "remove"))}
    each = ["a+r"] if kinds == "a+r" else list(kinds)
    known = {name(n + 1): text(*map(actions.__getitem__, some.split("+"))) for n, some in enumerate(each)}
    assert log(write_log(commits(0, len(each) + 2) | known)).dropped("f.parquet") is dropped


def file(kind: str, path: str, **said: bool) -> dict[str, Any]:
    return {kind: {"path": path, **said}}


def rewrite(*removed: str, added: str = "p=1/new.parquet") -> str:
    return text(*(file("remove", path, dataChange=False) for path in removed), file("add", added, dataChange=False))


@pytest.mark.parametrize(
    ("commit", "strays"),
    [
        (rewrite("p=1/f-0.parquet"), False),
        (rewrite("p=1/f-9.parquet"), True),
        (rewrite(added="p=1/f-0.parquet"), False),
        (rewrite(added="p=1/f-9.parquet"), True),
        (text(file("remove", "p=1/f-9.parquet")), False),
        (text({"commitInfo": {"operation": "SET TBLPROPERTIES"}}), False),
    ],
    ids=["OPTIMIZE", "OPTIMIZE of another", "COMPUTE STATS", "COMPUTE STATS of another", "DELETE", "no file"],
)
def test_maintenance_of_a_table_that_was_dropped_there_is_told(
    commit: str, strays: bool, write_log: WriteLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    added = {name(0): text(file("add", "p=1/f-0.parquet")), name(3): text(file("add", "p=1/f-9.parquet"))}
    table = write_log(commits(1, 2) | added | {name(2): commit})
    assert BuildReader(str(table)).answer(ReadCommit(2)).strays is strays
    monkeypatch.setattr(delta_log, "YOUNG", 1)
    assert not BuildReader(str(table)).answer(ReadCommit(2)).strays, "the commit that adds it may be an older one"
    monkeypatch.undo()
    (table / "_delta_log" / name(1)).unlink()
    assert not BuildReader(str(table)).answer(ReadCommit(2)).strays, "the deleted commit may have added it"


@pytest.mark.parametrize("content", ["", '{"commitInfo":{}}\n{"add":', "no json"])
def test_a_damaged_commit_is_no_end_of_history(content: str, write_log: WriteLog) -> None:
    table = write_log(commits(0, 3) | {name(2): content})
    with pytest.raises(RecordInvalid, match=name(2).removesuffix(".json").lstrip("0")) as raised:
        log(table).read(2)
    assert raised.value.data == {"version": 2, "file": name(2)}


def test_what_is_no_table_is_refused(tmp_path: Path, write_log: WriteLog) -> None:
    for table in (tmp_path / "missing", write_log({"_last_checkpoint": '{"version":3}'})):
        for call in (log(table).head, log(table).protocol_and_metadata):
            with pytest.raises(SourceNotDelta):
                call()
        assert log(table).versions(-1) == []


def test_a_head_may_be_left_as_a_checkpoint_only(write_log: WriteLog) -> None:
    table = write_log({name(9, "checkpoint.parquet"): checkpoint(*rows_of("t", NEW))})
    assert log(table).head() == 9 and log(table).versions(-1) == []
    assert log(table).protocol_and_metadata() == state("t", NEW)


@pytest.mark.parametrize(
    "pointer", ['{"version":4}', '{"version":999}', "garbage", '{"version":"x"}', '{"version":-5}']
)
def test_the_pointer_to_the_checkpoint_is_only_a_hint(pointer: str, write_log: WriteLog) -> None:
    table = write_log(commits(0, 8) | {name(4, "crc"): checksum("t4"), "_last_checkpoint": pointer})
    assert log(table).head() == 7 and log(table).protocol_and_metadata() == state("t4", NEW)


def test_later_commits_go_before_a_summary(write_log: WriteLog) -> None:
    table = write_log(commits(0, 8) | {name(4, "crc"): checksum("t4", OLD)})
    assert log(table).protocol_and_metadata() == state("t4", OLD)
    write_log({name(6): text({"protocol": NEW})})
    assert log(table).protocol_and_metadata() == state("t4", NEW)
    write_log({name(5): text({"metaData": metadata("t5")}, {"protocol": OLD})})
    assert log(table).protocol_and_metadata() == state("t5", NEW)
    write_log({name(7): text({"metaData": metadata("t7")})})
    assert log(table).protocol_and_metadata() == state("t7", NEW)
    write_log({name(6): append(6)})
    assert log(table).protocol_and_metadata() == state("t7", OLD)


def test_summaries_below_the_last_checkpoint_are_found(write_log: WriteLog) -> None:
    bad = {"_last_checkpoint": '{"version":4}', name(4, "checkpoint.parquet"): "cut off"}
    table = write_log(commits(2, 6) | bad | {name(2, "crc"): checksum("t2")})
    assert log(table).protocol_and_metadata() == state("t2", NEW)


def test_the_newest_summary_is_taken(write_log: WriteLog) -> None:
    sums = {name(version, "crc"): checksum(f"t{version}") for version in (4, 6)}
    beyond = {name(9, "crc"): checksum("beyond the head")}
    middle = {name(5, "checkpoint.parquet"): checkpoint(*rows_of("t5", OLD))}
    table = write_log(commits(0, 8) | sums | middle | beyond)
    assert log(table).protocol_and_metadata() == state("t6", NEW)
    (table / "_delta_log" / name(6, "crc")).unlink()
    assert log(table).protocol_and_metadata() == state("t5", OLD)


def test_every_kind_of_checkpoint_is_read(write_log: WriteLog, tmp_path: Path) -> None:
    first, second, third, fourth = rows_of("t", NEW)
    named = text({"checkpointMetadata": {"version": 3}}, {"sidecar": {"path": "x"}}, {"protocol": NEW})
    kinds: list[dict[str, bytes | str]] = [
        {"checkpoint.parquet": checkpoint(first, second, third, fourth)},
        {f"checkpoint.{UUID}.parquet": checkpoint(second, fourth)},
        {f"checkpoint.{UUID}.json": named + text({"metaData": metadata("t")})},
        {
            "checkpoint.0000000001.0000000003.parquet": checkpoint(first, second),
            "checkpoint.0000000002.0000000003.parquet": checkpoint(third),
            "checkpoint.0000000003.0000000003.parquet": checkpoint(fourth),
        },
    ]
    for kind in kinds:
        table = write_log(commits(4, 6) | {name(3, suffix): content for suffix, content in kind.items()})
        assert log(table).protocol_and_metadata() == state("t", NEW)
        for suffix in kind:
            (table / "_delta_log" / name(3, suffix)).unlink()


@pytest.mark.parametrize("content", ["", "{", "{}", '{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}', "[]"])
def test_bad_summaries_are_passed_over(content: str, write_log: WriteLog) -> None:
    bad = {name(4, "crc"): content, name(3, "checkpoint.parquet"): content, name(2, f"checkpoint.{UUID}.json"): content}
    table = write_log(commits(0, 5) | bad)
    assert log(table).protocol_and_metadata() == state("t0", OLD)
    for version in (0, 1):
        (table / "_delta_log" / name(version)).unlink()
    with pytest.raises(
        HistoryLost, match=r"version 1 was deleted; checksum of version 4: .*; checkpoint of version 3: "
    ):
        log(table).protocol_and_metadata()


def test_a_table_without_metadata_is_refused(write_log: WriteLog) -> None:
    with pytest.raises(RecordInvalid, match="lacks protocol or metadata"):
        log(write_log({name(0): text({"protocol": OLD})})).protocol_and_metadata()


def test_without_pyarrow_the_commits_are_scanned(write_log: WriteLog, run: Run) -> None:
    program = """
import sys
sys.modules["pyarrow"] = None
from airflow_backfill.core.errors import HistoryLost
from airflow_backfill.ledger.delta_log import DeltaLog
from airflow_backfill.ledger.local_store import LocalStore
try:
    print(DeltaLog(LocalStore(sys.argv[1])).protocol_and_metadata()[1].table_id)
except HistoryLost as error:
    print(error)
"""
    table = write_log(commits(0, 5) | {name(3, "checkpoint.parquet"): checkpoint(*rows_of("t3", NEW))})
    assert run(program, table) == "t0\n"
    for version in range(3):
        (table / "_delta_log" / name(version)).unlink()
    assert "checkpoint of version 3: the package pyarrow is required to read it" in run(program, table)


def test_a_local_log_needs_no_other_package(write_log: WriteLog, run: Run) -> None:
    program = """
import sys
before = set(sys.modules)
from airflow_backfill.ledger.delta_log import DeltaLog
from airflow_backfill.ledger.features import check_readable
from airflow_backfill.ledger.journal import Journal
from airflow_backfill.ledger.open_store import open_store
store = open_store(sys.argv[1])
print(DeltaLog(store).head(), Journal(store, "control").append({"a": 1}))
loaded = {name.partition(".")[0] for name in set(sys.modules) - before}
print(sorted(loaded - sys.stdlib_module_names))
"""
    answer, modules = run(program, write_log(commits(0, 2))).splitlines()
    assert answer == "1 1"
    assert modules == "['airflow_backfill']"
