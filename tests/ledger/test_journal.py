from __future__ import annotations

import json
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from airflow_backfill.core.errors import InvalidSpec, RecordInvalid
from airflow_backfill.ledger.journal import MAX_DOCUMENT_BYTES, Journal
from airflow_backfill.ledger.local_store import LocalStore
from tests.ledger.processes import let_go, started

APPEND = """
import sys
from airflow_backfill.ledger.journal import Journal
from airflow_backfill.ledger.local_store import LocalStore
root, process, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
journal = Journal(LocalStore(root), "control/commands")
print("ready", flush=True)
sys.stdin.readline()
for number in range(count):
    print(journal.append({"process": process, "number": number, "text": "x" * 2000}), flush=True)
"""


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(LocalStore(str(tmp_path)), "control/commands")


def test_documents_come_back_in_order(journal: Journal, tmp_path: Path) -> None:
    assert journal.after(0) == []
    documents = [{"verb": "pause", "note": "ü\n"}, {"verb": "resume", "n": {"a": [1, None]}}, {"verb": "cancel"}]
    assert [journal.append(document) for document in documents] == [1, 2, 3]
    assert journal.after(0) == list(enumerate(documents, start=1))
    assert journal.after(2) == [(3, documents[2])] and journal.after(3) == []
    assert (tmp_path / "control/commands/000000001.json").exists()


@pytest.mark.parametrize("count", [1, 5])
def test_a_document_that_is_deleted_after_it_was_listed_is_left_out(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    for number in range(count):
        journal.append({"n": number})
    listed = journal.numbers()
    journal.delete(1)
    monkeypatch.setattr(journal, "numbers", lambda after=0: listed)
    assert journal.after(0) == journal.last(9) == [(n + 1, {"n": n}) for n in range(1, count)]


def test_a_hundred_appends_of_eight_processes_get_a_hundred_numbers(tmp_path: Path) -> None:
    counts = [13, 13, 13, 13, 12, 12, 12, 12]
    processes = [started(APPEND, tmp_path, process, count) for process, count in enumerate(counts)]
    let_go(processes)
    drawn = {p: [int(n) for n in started.communicate()[0].split()] for p, started in enumerate(processes)}
    assert sorted(n for numbers in drawn.values() for n in numbers) == list(range(1, 101))
    stored = Journal(LocalStore(str(tmp_path)), "control/commands").after(0)
    assert [number for number, _ in stored] == list(range(1, 101))
    for drawer, numbers in drawn.items():
        own = [(number, document["number"]) for number, document in stored if document["process"] == drawer]
        assert own == [(number, order) for order, number in enumerate(numbers)]


def test_killed_processes_leave_no_gap_and_no_half_document(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        processes = list(pool.map(lambda number: started(APPEND, tmp_path, number, 100_000), range(4)))
    acknowledged: set[int] = set()
    let_go(processes)
    for process in processes:
        assert process.stdout is not None
        acknowledged.update(int(process.stdout.readline()) for _ in range(5))
    for process in processes:
        process.send_signal(signal.SIGKILL)
    for process in processes:
        # Not communicate(), which would leave out what readline() has read ahead.
        assert process.stdout is not None
        # A last number may have been cut off by the kill.
        acknowledged.update(int(line) for line in process.stdout.read().split("\n")[:-1])
        process.communicate()
    numbers = [number for number, _ in Journal(LocalStore(str(tmp_path)), "control/commands").after(0)]
    assert numbers == list(range(1, len(numbers) + 1)) and acknowledged <= set(numbers)


def test_numbers_begin_above_the_floor(journal: Journal) -> None:
    assert journal.append({"n": 1}, floor=7) == 8
    assert journal.append({"n": 2}, floor=3) == 9
    assert journal.append({"n": 3}) == 10 and [number for number, _ in journal.after(0)] == [8, 9, 10]


def test_companions_stand_beside_their_document(journal: Journal, tmp_path: Path) -> None:
    assert journal.read_beside(7, "outcome") is None
    number = journal.append({"attempt": "x"}, floor=6)
    journal.put_beside(number, "outcome", {"code": "FENCED"})
    journal.put_beside(number, "outcome", {"code": "DONE"})
    assert (tmp_path / "control/commands/000000007.outcome.json").exists()
    assert journal.read_beside(number, "outcome") == {"code": "DONE"}
    assert journal.read_beside(number, "other") is None and journal.after(0) == [(7, {"attempt": "x"})]
    assert journal.after(6) == [(7, {"attempt": "x"})] and journal.after(7) == []
    assert journal.append({"attempt": "y"}) == 8


@pytest.mark.parametrize("content", ["", "{", "[]", '"x"', "null", '{"a":1}x', "\0\0", "x" * (MAX_DOCUMENT_BYTES + 1)])
def test_a_damaged_document_is_named(content: str, journal: Journal, tmp_path: Path) -> None:
    journal.append({"n": 1})
    (tmp_path / "control/commands/000000002.json").write_text(content)
    (tmp_path / "control/commands/000000001.outcome.json").write_text(content)
    with pytest.raises(RecordInvalid, match=r"000000002\.json"):
        journal.after(0)
    with pytest.raises(RecordInvalid, match=r"000000001\.outcome\.json"):
        journal.read_beside(1, "outcome")
    assert journal.append({"n": 3}) == 3 and journal.after(2) == [(3, {"n": 3})]


@pytest.mark.parametrize("name", ["notes.txt", "3.json", "000000003.JSON", "000000003.json.bak", "0000000030.json"])
def test_a_foreign_file_is_named(name: str, journal: Journal, tmp_path: Path) -> None:
    journal.append({"n": 1})
    (tmp_path / "control/commands" / name).write_text("{}")
    for call in (lambda: journal.after(0), lambda: journal.append({"n": 2})):
        with pytest.raises(RecordInvalid, match=name):
            call()


def test_a_document_that_is_too_long_is_not_read(journal: Journal, tmp_path: Path) -> None:
    journal.append({"n": 1})
    (tmp_path / "control/commands/000000002.json").write_text("{}" + " " * (MAX_DOCUMENT_BYTES - 1))
    with pytest.raises(RecordInvalid, match=r"000000002\.json: longer than"):
        journal.after(0)


def test_what_does_not_fit_is_refused_before_it_is_written(journal: Journal) -> None:
    with pytest.raises(RecordInvalid, match="longer"):
        journal.append({"text": "x" * MAX_DOCUMENT_BYTES})
    with pytest.raises(ValueError, match="JSON"):
        journal.append({"text": float("nan")})
    for suffix in ("a/b", "../x", "A", "a.b", "\n"):
        with pytest.raises(RecordInvalid):
            journal.put_beside(1, suffix, {})
    for number in (0, -1, 10**9):
        with pytest.raises(RecordInvalid):
            journal.put_beside(number, "x", {})
    with pytest.raises(RecordInvalid):
        journal.append({}, floor=10**9 - 1)
    largest = {"text": "x" * (MAX_DOCUMENT_BYTES - len(json.dumps({"text": ""}, separators=(",", ":"))))}
    assert journal.append(largest) == 1 and journal.after(0) == [(1, largest)]


def test_a_folder_outside_the_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidSpec):
        Journal(LocalStore(str(tmp_path)), "../elsewhere").append({"n": 1})
