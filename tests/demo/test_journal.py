from __future__ import annotations

import json
from datetime import date
from decimal import Decimal

import pytest

from demo.journal import Journal, Operation, find, read, resolved

HEADER = {"journal": "j", "seed": 1}
ROW = {"k": 7, "price": Decimal("1.50"), "on": date(1996, 1, 2), "note": "ä\n", "none": None}
INSERT = Operation("orders", "append", upserts=(ROW,))
DELETE = Operation("orders", "delete", deletes=((7,), (8,)))


def write_commit(table, version, marker):
    log = table / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    actions = [{"add": {"path": "x"}}, {"commitInfo": {"operation": "WRITE", "userMetadata": marker}}]
    (log / f"{version:020d}.json").write_text("".join(json.dumps(action) + "\n" for action in actions))


def test_what_is_read_is_what_was_written(tmp_path):
    journal = Journal(tmp_path / "j", HEADER)
    first = journal.begin(INSERT, after=1, step=0)
    journal.end(first, "ok", version=2)
    second = journal.begin(DELETE, after=2, step=1)
    journal.end(second, "failed", error="lost")
    third = journal.begin(Operation("orders", "update", (ROW,), assignments={"price": Decimal("0.07")}), after=2)
    entries = read(tmp_path / "j")
    assert [entry.operation for entry in entries] == [first.operation, second.operation, third.operation]
    assert [(entry.outcome, entry.version) for entry in entries] == [
        ("ok", 2),
        ("failed", None),
        ("unknown", None),
    ]
    assert [entry.step for entry in entries] == [0, 1, None]
    assert len({entry.marker for entry in entries}) == 3


@pytest.mark.parametrize("torn", ['{"begin":2,"note":"' + 999 * "x", '{"end":1,"outcome":"o'], ids=["begin", "end"])
def test_a_torn_line_is_no_line_and_the_next_writer_goes_on_after_it(tmp_path, torn):
    journal = Journal(tmp_path / "j", HEADER)
    journal.begin(INSERT, after=1, step=0)
    journal.close()
    with (tmp_path / "j").open("a") as file:
        file.write(torn)
    assert [entry.outcome for entry in read(tmp_path / "j")] == ["unknown"]
    again = Journal(tmp_path / "j", {**HEADER, "journal": "another"})
    assert (again.id, len(again.past)) == ("j", 1)
    assert (tmp_path / "j").read_bytes().endswith(b"}\n")
    again.end(again.past[0], "ok", version=2)
    assert again.begin(DELETE, after=2, step=1).number == 2
    assert [entry.outcome for entry in read(tmp_path / "j")] == ["ok", "unknown"]


def test_a_journal_is_not_continued_with_other_settings(tmp_path):
    Journal(tmp_path / "j", HEADER).close()
    before = (tmp_path / "j").read_bytes()
    with pytest.raises(ValueError, match="other settings"):
        Journal(tmp_path / "j", {"journal": "j", "seed": 2})
    assert (tmp_path / "j").read_bytes() == before


def test_an_unknown_outcome_is_what_the_log_says(tmp_path):
    journal = Journal(tmp_path / "j", HEADER)
    landed = journal.begin(INSERT, after=1)
    lost = journal.begin(DELETE, after=1)
    write_commit(tmp_path / "orders", 2, "somebody else's")
    write_commit(tmp_path / "orders", 3, landed.marker)
    entries = list(resolved(read(tmp_path / "j"), tmp_path))
    assert [(entry.outcome, entry.version) for entry in entries] == [("ok", 3), ("failed", None)]
    assert find(tmp_path / "orders", landed.marker, 3) is None
    assert find(tmp_path / "orders", lost.marker, 0) is None


def test_a_value_that_would_not_come_back_is_refused(tmp_path):
    journal = Journal(tmp_path / "j", HEADER)
    with pytest.raises(TypeError, match="set"):
        journal.begin(Operation("orders", "append", ({"k": {1}},)), after=1)
    assert read(tmp_path / "j") == []
