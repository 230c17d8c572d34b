"""Everything that ``--json`` prints has a schema, which allows no other fields."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError

from airflow_backfill.cli.main import main
from tests.cli.schema import SCHEMAS, check
from tests.core.tasks import READ
from tests.ledger.json_target import JsonBuild

Captured = pytest.CaptureFixture[str]


def printed(capsys: Captured, status: int, *argv: str) -> list[Any]:
    assert main([*argv, "--json"]) == status
    captured = capsys.readouterr()
    return [json.loads(line) for line in (captured.err if status else captured.out).splitlines()]


def test_every_schema_is_one() -> None:
    files = list(SCHEMAS.glob("*.json"))
    assert len(files) >= 6
    for file in files:
        Draft202012Validator.check_schema(json.loads(file.read_text()))


def test_what_is_printed_fits(tmp_path: Path, capsys: Captured) -> None:
    build = JsonBuild(tmp_path / "one")
    build.plan()
    build.write(times=2)
    for task in ((), (READ,)):
        for one in task:
            build.run(one)
        check("status", *printed(capsys, 0, "status", build.location))
    done = JsonBuild(tmp_path / "two")
    done.finished()
    for document in printed(capsys, 0, "status", done.location, "--watch"):
        check("status", document)
    check("list", *printed(capsys, 0, "list", str(tmp_path)))
    for argv in (["pause"], ["throttle", "5"], ["hold", "--wait", "0"]):
        status = 1 if "--wait" in argv else 0
        assert main([argv[0], build.location, *argv[1:], "--json"]) == status
        check("order", json.loads(capsys.readouterr().out))
    check("error", *printed(capsys, 1, "pause", build.location + "x"))
    build.foreign("RESTORE")
    assert main(["list", str(tmp_path), "--json"]) == 1
    check("list", json.loads(capsys.readouterr().out))


def test_a_build_that_is_planned_fits(tmp_path: Path, capsys: Captured) -> None:
    build = JsonBuild(tmp_path)
    build.reader.draw_attempt({"task": "plan"})
    check("status", *printed(capsys, 0, "status", build.location))
    check("list", *printed(capsys, 0, "list", str(tmp_path)))


def test_an_unknown_field_does_not_fit() -> None:
    with pytest.raises(ValidationError):
        check("order", {"command": "pause", "number": 1, "more": 1})
