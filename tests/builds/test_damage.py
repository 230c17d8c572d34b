"""A file beside the target that is damaged in any way hides what it tells, and not the build."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from airflow_backfill.builds.accuracy import accuracy
from airflow_backfill.builds.glance import glance
from airflow_backfill.builds.status import as_text, status
from airflow_backfill.core.errors import DocumentDamaged, error_in
from airflow_backfill.core.values.control import Command, Verb
from tests.cli.schema import check
from tests.core.tasks import READ
from tests.ledger.json_target import JsonBuild

BYTES = {
    "empty": lambda data: b"",
    "cut": lambda data: data[: len(data) // 2],
    "cut at its end": lambda data: data[:-1],
    "zeros": lambda data: bytes(len(data)),
    "not UTF-8": lambda data: b"\xff" + data[1:],
    "a list": lambda data: b"[]",
    "nothing in it": lambda data: b"{}",
    "two of it": lambda data: data + data,
    "deep": lambda data: b"[" * 100_000,
}
REHEARSAL = {"snapshot_seconds": 9.5, "start_seconds": 5.0, "log_seconds": None}
WRONG = ({"x": 1}, "a text", 1.5, None)


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> JsonBuild:
    build = JsonBuild(tmp_path_factory.mktemp("build"))
    build.plan()
    control = build.reader.control
    control.store_report(build.draft().build, {"rehearsal": REHEARSAL})
    build.order(Command(Verb.THROTTLE, 10_000_000))
    build.run(READ)
    instance = {"dag_id": "d", "task_id": "t", "run_id": "r", "map_index": -1, "try_number": 1}
    me = build.reader.draw_attempt({"task": "consume_log", **instance})
    control.announce(me, {"application": "local-1", "ui": "http://spark.test", "conf": {}})
    build.order(Command(Verb.HOLD))
    return build


FILES = {
    "an attempt that has ended": "attempts/000000002.json",
    "its outcome": "attempts/000000002.outcome.json",
    "the last attempt": "attempts/000000003.json",
    "its heartbeat": "attempts/000000003.started.json",
    "a command that is taken": "commands/000000001.json",
    "a command that is not": "commands/000000002.json",
    "the plan": "plans/*[!t].json",
    "its report": "plans/*.report.json",
}
OF_WRITERS = ("the plan", "its report")
"""Files of which there is another copy, or without which less is told."""
CODE = "DOCUMENT_DAMAGED"


def damaged(data: bytes) -> Iterator[tuple[str, bytes]]:
    for name, damage in BYTES.items():
        yield name, damage(data)
    document = json.loads(data)
    for field in document:
        for value in WRONG:
            yield f"{field} is {value!r}", json.dumps({**document, field: value}).encode()
        rest = {name: value for name, value in document.items() if name != field}
        yield f"without {field}", json.dumps(rest).encode()


def test_every_file_beside_a_target_is_tried(build: JsonBuild) -> None:
    folder = Path(f"{build.location}.backfill")

    def kinds(files: Iterable[Path]) -> set[tuple[str, ...]]:
        return {(file.parent.name, *file.suffixes) for file in files}

    assert kinds(folder.rglob("*.json")) == kinds(f for pattern in FILES.values() for f in folder.glob(pattern))


@pytest.mark.parametrize("which", FILES)
def test_a_damaged_file_hides_only_what_it_tells(which: str, build: JsonBuild) -> None:
    [file] = Path(f"{build.location}.backfill").glob(FILES[which])
    data, whole = file.read_bytes(), status(build.location)
    try:
        for how, content in damaged(data):
            file.write_bytes(content)
            found, last = status(build.location), glance(build.location)
            for name in ("name", "phase", "rows", "epoch", "percent"):
                assert found[name] == last[name] == whole[name], how
            for trouble in (found["trouble"], last["trouble"]):
                assert trouble is None or (trouble["code"], Path(trouble["data"]["file"]).name) == (CODE, file.name)
            assert found["trouble"] is not None or how not in BYTES or which in OF_WRITERS, how
            assert found["trouble"] is None or file.name in as_text(found), how
            check("status", found)
            accuracy(build.location)
    finally:
        file.write_bytes(data)
    assert status(build.location)["trouble"] is None


def test_a_foreign_file_hides_nothing(build: JsonBuild) -> None:
    for folder in ("attempts", "commands"):
        file = Path(f"{build.location}.backfill/{folder}/notes.txt")
        file.write_text("to do")
        for found in (status(build.location), glance(build.location)):
            assert found["phase"] == "snapshot" and "notes.txt" in found["trouble"]["message"]
        file.unlink()


def test_a_damaged_command_stops_the_build_and_says_so(build: JsonBuild) -> None:
    file = Path(f"{build.location}.backfill/commands/000000002.json")
    data = file.read_bytes()
    file.write_bytes(b"{")
    health: Mapping[str, Any] = status(build.location)["health"]
    assert health["needs_attention"] and "commands/000000002.json" in health["why"]
    file.write_bytes(data)


def test_the_attempt_that_plans_may_be_damaged(tmp_path: Path) -> None:
    build = JsonBuild(tmp_path)
    build.reader.draw_attempt({"task": "plan"})
    file = Path(f"{build.location}.backfill/attempts/000000001.json")
    data = file.read_bytes()
    file.write_bytes(b"")
    with pytest.raises(DocumentDamaged, match=r"attempts/000000001\.json"):
        status(build.location)
    file.write_bytes(data)
    file.with_suffix(".started.json").write_bytes(b"[]")
    found = status(build.location)
    assert found["phase"] == "planning" and "000000001.started.json" in as_text(found)


def test_its_code_is_known_when_it_comes_back_from_an_outcome() -> None:
    error = DocumentDamaged("attempts/000000001.json: empty", file="attempts/000000001.json")
    assert type(error_in(error.to_json())) is DocumentDamaged
