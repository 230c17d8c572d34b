"""The command line over real logs: what it says, what it orders, what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_backfill.cli.main import main
from airflow_backfill.core.control import Command, Verb
from airflow_backfill.core.errors import Cancelled
from airflow_backfill.core.task import CancelTask, CatchUpTask, ConsumeLogTask, FinishTask, SnapshotTask, VerifyTask
from tests.core.model import NO_LAG, PATIENCE, ROUND
from tests.ledger.json_target import JsonBuild


@pytest.fixture
def build(tmp_path: Path) -> JsonBuild:
    made = JsonBuild(tmp_path)
    made.plan()
    return made


def finish(build: JsonBuild) -> None:
    build.run(SnapshotTask(0, 1, ROUND))
    for task in (ConsumeLogTask(ROUND, NO_LAG, PATIENCE), CatchUpTask(ROUND, NO_LAG, PATIENCE)):
        build.run(task)
    build.run(VerifyTask())
    build.run(FinishTask())


def said(capsys: pytest.CaptureFixture[str], *argv: str) -> dict:
    assert main([*argv, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def refused(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert main([*argv, "--json"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    return json.loads(captured.err)["code"]


def test_status_says_where_a_build_is(build: JsonBuild, capsys: pytest.CaptureFixture[str]) -> None:
    found = said(capsys, "status", build.location)
    assert (found["phase"], found["percent"], found["epoch"]) == ("snapshot", 0.0, None)
    build.write(times=3)
    build.run(SnapshotTask(0, 1, ROUND))
    found = said(capsys, "status", build.location)
    assert (found["percent"], found["lag"]["epochs"]) == (100.0, 3)
    finish(build)
    found = said(capsys, "status", build.location)
    assert (found["phase"], found["epoch"]) == ("finished", found["handoff"])
    assert main(["status", build.location]) == 0
    text = capsys.readouterr().out
    assert "finished" in text and f"hand-off at epoch {found['handoff']}" in text and "proven" in text


@pytest.mark.parametrize(
    "argv, command",
    [
        (["pause"], Command(Verb.PAUSE)),
        (["resume"], Command(Verb.RESUME)),
        (["hold"], Command(Verb.HOLD)),
        (["release"], Command(Verb.RELEASE)),
        (["throttle", "500"], Command(Verb.THROTTLE, rate=500)),
        (["throttle", "0"], Command(Verb.THROTTLE, rate=0)),
        (["throttle", "none", "--bytes", "900"], Command(Verb.THROTTLE, byte_rate=900)),
        (["throttle", "none"], Command(Verb.THROTTLE)),
        (["cancel", "--drop", "--no-submit"], Command(Verb.CANCEL, drop=True)),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_command_lies_beside_the_target(
    build: JsonBuild, capsys: pytest.CaptureFixture[str], argv: list[str], command: Command
) -> None:
    verb, *rest = argv
    assert said(capsys, verb, build.location, *rest)["number"] == 1
    assert list(build.reader.commands(build.state().plan.build)) == [(1, command)]


def test_status_tells_what_is_ordered_from_what_is_acknowledged(
    build: JsonBuild, capsys: pytest.CaptureFixture[str]
) -> None:
    said(capsys, "throttle", build.location, "1000000")
    assert main(["status", build.location]) == 0
    assert "waits for the next barrier, to acknowledge commands up to 1" in capsys.readouterr().out
    build.run(SnapshotTask(0, 1, ROUND))
    found = said(capsys, "status", build.location)
    assert (found["control"]["number"], found["control"]["rate"], found["ordered"]) == (1, 1000000, 1)


def test_a_cancel_stops_the_next_attempt(build: JsonBuild, capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "cancel", build.location, "--no-submit")
    with pytest.raises(Cancelled):
        build.run(SnapshotTask(0, 1, ROUND))
    build.run(CancelTask())
    assert refused(capsys, "pause", build.location) == "NOT_ALLOWED_NOW"


def test_what_could_have_no_effect_is_refused(build: JsonBuild, capsys: pytest.CaptureFixture[str]) -> None:
    finish(build)
    for verb in ("cancel", "hold", "release"):
        assert refused(capsys, verb, build.location) == "NOT_ALLOWED_NOW"
    assert refused(capsys, "throttle", build.location, "fast") == "SPEC_INVALID"
    assert refused(capsys, "status", build.spec.source) == "NOT_PLANNED"
    assert refused(capsys, "status", build.location + "x") == "SOURCE_NOT_DELTA"
    assert list(build.reader.commands(build.state().plan.build)) == []


def test_a_cancel_whose_application_cannot_start_says_so(build: JsonBuild, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["cancel", build.location, "--spark-submit", "/nonexistent/spark-submit"]
    assert refused(capsys, *command) == "APPLICATION_FAILED"
    assert list(build.reader.commands(build.state().plan.build)) == [(1, Command(Verb.CANCEL))]


def test_a_wrong_command_line_ends_with_2() -> None:
    with pytest.raises(SystemExit) as ended:
        main(["stop", "/t"])
    assert ended.value.code == 2
