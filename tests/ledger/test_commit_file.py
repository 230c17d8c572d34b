from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_backfill.core.values.commit import Commit, FileTotals
from airflow_backfill.ledger.actions import Malformed
from airflow_backfill.ledger.commit_file import DIGESTED_BYTES, parse_commit

Run = Callable[..., str]


def parse(*actions: dict[str, Any], size: int = 1 << 20, end: str = "\n") -> Commit:
    data = ("\n".join(json.dumps(action) for action in actions) + end).encode()
    return replace(parse_commit(7, [data[start : start + size] for start in range(0, len(data), size)]), digest=None)


def add(rows: int | None = 10, **fields: Any) -> dict[str, Any]:
    stats = {} if rows is None else {"stats": json.dumps({"numRecords": rows, "minValues": {"a": 1}})}
    return {"add": {"path": "f", "partitionValues": {}, "size": 100, "dataChange": True, **stats, **fields}}


def remove(rows: int | None = 10, **fields: Any) -> dict[str, Any]:
    return {"remove": add(rows, **fields)["add"]}


@pytest.mark.parametrize(
    ("action", "said"),
    [
        ({"txn": {"version": 1}}, "line 1: appId: expected a string, found nothing"),
        ({"txn": {"appId": "a", "version": "x"}}, 'line 1: version: expected a whole number, found "x" (str)'),
        ({"protocol": {"minWriterVersion": 7}}, "line 1: minReaderVersion: expected a whole number, found nothing"),
    ],
)
def test_what_is_malformed_is_named_with_its_value(action: dict[str, Any], said: str) -> None:
    with pytest.raises(Malformed) as raised:
        parse(action)
    assert str(raised.value) == said


def test_an_append_is_summed_up() -> None:
    metrics = {"numFiles": "2", "numOutputRows": "30", "note": "x", "part": "1.5", "n": 4}
    info = {"timestamp": 5, "operation": "WRITE", "userMetadata": "{}", "operationMetrics": metrics}
    commit = parse(
        {"commitInfo": info},
        {"txn": {"appId": "build/0/1", "version": 3, "lastUpdated": 9}},
        {"txn": {"appId": "other", "version": 0}},
        add(10),
        add(20, size=50),
    )
    assert commit == Commit(
        version=7,
        timestamp=5,
        operation="WRITE",
        added=FileTotals(2, 150, 30, 0),
        data_change=True,
        txns={"build/0/1": 3, "other": 0},
        user_metadata="{}",
        metrics={"numFiles": 2, "numOutputRows": 30, "n": 4},
    )
    assert commit.append_only


def test_deletion_vectors_count_hidden_rows_beside_physical_ones() -> None:
    old = {"storageType": "u", "cardinality": 2}
    new = {"storageType": "u", "cardinality": 5}
    commit = parse(remove(10, deletionVector=old), add(10, deletionVector=new))
    assert commit.added == FileTotals(1, 100, 10, 5) and commit.removed == FileTotals(1, 100, 10, 2)
    assert not commit.append_only


def test_one_missing_count_makes_the_sum_unknown() -> None:
    assert parse(remove(10), remove(None), remove(10), add(1)).removed == FileTotals(3, 300, None, 0)
    assert parse(add(10, stats='{"minValues":{"numRecords":5}}')).added.rows is None
    assert parse(add(10, stats=None)).added.rows is None
    assert parse(add(10), add(None)).added.rows is None
    assert parse(remove(None)).added.rows == 0


@pytest.mark.parametrize(
    "stats",
    [
        '{"numRecords":3}',
        ' { "numRecords" : 3 , "minValues":{}}',
        '{"minValues":{"numRecords":7},"numRecords":3}',
        '{"maxValues":{"a":"\\"numRecords\\":9"},"numRecords":3,"tightBounds":true}',
    ],
)
def test_the_count_is_read_wherever_it_stands(stats: str) -> None:
    assert parse(add(stats=stats)).added.rows == 3


def test_rewrites_do_not_change_rows() -> None:
    commit = parse(add(dataChange=False), remove(dataChange=False))
    assert (commit.data_change, commit.rewrites) == (False, True)
    commit = parse(add(dataChange=False), remove(dataChange=True))
    assert (commit.data_change, commit.rewrites) == (True, True)
    commit = parse({"add": {"path": "f", "size": 1}})
    assert (commit.data_change, commit.rewrites) == (True, False)


def test_files_of_deletion_vectors_are_no_data_files() -> None:
    """DROP FEATURE deletionVectors removes them, without a number of rows."""
    path = "ab/deletion_vector_b0668b60-e597-4d8c-a68e-0c056db59ec4.bin"
    commit = parse({"remove": {"path": path, "deletionTimestamp": 1, "dataChange": False}})
    assert (commit.data_change, commit.rewrites, commit.belied, commit.removed.files) == (False, False, False, 0)
    assert parse(remove(path="data.bin", dataChange=False)).rewrites


def test_change_files_are_change() -> None:
    commit = parse({"cdc": {"path": "c", "size": 9, "dataChange": False}}, add())
    assert commit.changed == FileTotals(1, 9, None, 0) and not commit.append_only
    assert parse({"cdc": {"path": "c", "size": 9, "dataChange": False}}).data_change


def test_metadata_and_protocol() -> None:
    fields = {"partitionColumns": ["p"], "configuration": {"k": "v"}}
    commit = parse(
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["a"], "writerFeatures": []}},
        {"metaData": {"id": "t", "schemaString": "{}", "createdTime": 1, **fields}},
    )
    assert commit.protocol is not None and commit.protocol.reader_features == {"a"}
    assert commit.metadata is not None
    assert (commit.metadata.table_id, commit.metadata.partition_columns) == ("t", ("p",))
    assert commit.metadata.configuration == {"k": "v"} and not commit.data_change


def test_the_time_within_the_commit_goes_before_that_of_the_clock() -> None:
    assert parse({"commitInfo": {"inCommitTimestamp": 8, "timestamp": 5}}).timestamp == 8
    assert parse({"commitInfo": {"timestamp": 5}}).timestamp == 5
    assert parse({"commitInfo": {}}).timestamp == 0


@pytest.mark.parametrize(
    ("operation", "parameters", "restored"),
    [
        ("RESTORE", {"version": "7", "timestamp": None}, 7),
        ("RESTORE", {"version": 7}, 7),
        ("RESTORE", {"version": None, "timestamp": "2026-01-31"}, None),
        ("RESTORE", {"version": "null", "timestamp": '"2026-01-31"'}, None),
        ("RESTORE", None, None),
        ("CLONE", {"version": "7"}, None),
    ],
)
def test_a_restore_names_a_version_or_a_time(operation: str, parameters: Any, restored: int | None) -> None:
    info = {"operation": operation, "operationParameters": parameters}
    assert parse({"commitInfo": info}, add()).restored == restored


def test_actions_of_tomorrow_are_left_alone() -> None:
    commit = parse({"domainMetadata": {"domain": "x"}}, {"newAction": {"add": 1}}, {"add": None, "txn": None})
    assert commit == Commit(version=7)


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
@pytest.mark.parametrize("end", ["", "\n", "\r\n\n \n"])
def test_chunks_and_line_ends_do_not_matter(size: int, end: str) -> None:
    actions = [add(10, path="ü" * 9), {"commitInfo": {"userMetadata": "a\nb\u2028c"}}, remove(3)]
    assert parse(*actions, size=size, end=end) == parse(*actions)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (b"", "empty"),
        (b"\n\n", "empty"),
        (b'{"add":{"size":1}}\n{"add":{"si', "line 2"),
        (b'{"add":{"size":1}}\n\0\0\0\0', "line 2"),
        (b"[]\n", "an object"),
        (b'{"add":[]}\n', "an object"),
        (b'{"add":{"size":"1"}}\n', "a whole number"),
        (b'{"add":{"size":true}}\n', "a whole number"),
        (b'{"add":{"size":1,"stats":"{"}}\n', "line 1"),
        (b'{"add":{"size":1,"stats":"{\\"numRecords\\":\\"3\\"}"}}\n', "a whole number"),
        (b'{"add":{"size":1,"deletionVector":{}}}\n', "a whole number"),
        (b'{"txn":{"version":1}}\n', "a string"),
        (b'{"metaData":{"id":"x"}}\n', "a string"),
        (b'{"metaData":{"id":"x","schemaString":"{}","configuration":{"k":1}}}\n', "a string"),
        (b'{"protocol":{"minReaderVersion":1}}\n', "a whole number"),
        (b'{"protocol":{"minReaderVersion":1,"minWriterVersion":1,"readerFeatures":"x"}}\n', "a list"),
        (b'{"commitInfo":"x"}\n', "an object"),
        (b'{"a":' * 100_000, "recursion"),
        (b'{"add":{"size":' + b"9" * 5000 + b"}}\n", "digits"),
        (b'{"a":"\xff\xfe"}\n', "line 1"),
    ],
)
def test_damage_is_named(text: bytes, what: str) -> None:
    with pytest.raises(Malformed, match=what):
        parse_commit(7, [text])


def test_a_line_without_end_is_refused() -> None:
    def endless() -> Any:
        while True:
            yield b"x" * (1 << 20)

    with pytest.raises(Malformed, match="longer than"):
        parse_commit(7, endless())


_keys = st.text(max_size=3) | st.sampled_from(
    [
        *("add", "remove", "cdc", "txn", "metaData", "protocol", "commitInfo", "size", "stats", "deletionVector"),
        *("cardinality", "dataChange", "appId", "version", "id", "schemaString", "configuration"),
        *("partitionColumns", "minReaderVersion", "minWriterVersion", "readerFeatures", "timestamp"),
        *("inCommitTimestamp", "operation", "operationMetrics", "userMetadata", "numRecords"),
    ]
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys, inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(st.dictionaries(_keys, json_values, max_size=3), max_size=4), st.integers(0, 400))
@example([{"commitInfo": {"operationMetrics": {"a": "²", "b": "-3", "c": " 4", "d": True}}}], 0)
def test_any_json_is_a_commit_or_damage(actions: list[dict[str, Any]], cut: int) -> None:
    data = "".join(json.dumps(action) + "\n" for action in actions).encode()
    for text in (data, data[:cut]):
        try:
            commit = parse_commit(0, [text])
        except Malformed:
            continue
        assert type(commit.timestamp) is int
        assert all(type(value) is int for value in (*commit.metrics.values(), *commit.txns.values()))


@pytest.mark.slow
def test_memory_does_not_grow_with_the_commit(run: Run) -> None:
    program = """
import json
from tests.ledger.process_cost import peak_kilobytes
from airflow_backfill.ledger.commit_file import parse_commit
stats = json.dumps({"numRecords": 5, "maxValues": {f"c{n}": "x" * 30 for n in range(20)}})
line = json.dumps({"add": {"path": "p" * 80, "size": 10, "dataChange": True, "stats": stats}}) + "\\n"
chunk = (line * (1_000_000 // len(line))).encode()
parse_commit(0, [chunk])
before = peak_kilobytes()
commit = parse_commit(0, (chunk for _ in range(200)))
print(commit.added.files, commit.added.rows, peak_kilobytes() - before)
"""
    files, rows, grown = map(int, run(program).split())
    assert rows == 5 * files and files > 150_000
    assert grown < 20_000, "kilobytes, for 200 MB of commit"


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 1000, DIGESTED_BYTES - 1, 3 * DIGESTED_BYTES])
def test_a_commit_is_told_from_another_by_its_first_mebibyte(size: int) -> None:
    def digest(path: str, padding: int = 0, *, chunk: int = size) -> str | None:
        padded = ["{}".ljust(1023)] * (padding // 1024)
        lines = [json.dumps({"commitInfo": {"timestamp": 1}}), json.dumps(add(path=path)), *padded]
        data = ("\n".join(lines) + "\n").encode()
        return parse_commit(7, [data[start : start + chunk] for start in range(0, len(data), chunk)]).digest

    assert digest("a") == digest("a", chunk=7) != digest("b")
    if size > 1:
        assert digest("a", 2 * DIGESTED_BYTES) == digest("a", 3 * DIGESTED_BYTES, chunk=DIGESTED_BYTES)
