from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from airflow_backfill.cli.main import main
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.core.values.phase import Phase
from tests.airflow.without_spark import built, make_source
from tests.cli.schema import check
from tests.ledger.json_target import JsonBuild

DROP = ("--drop", "--why", "a test")
Captured = pytest.CaptureFixture[str]

HERE = Path(__file__).parent


@pytest.fixture
def build(tmp_path: Path) -> JsonBuild:
    build = JsonBuild(tmp_path)
    build.plan()
    return build


@pytest.fixture
def received(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the stand-in for ``spark-submit`` leaves what it was given."""
    monkeypatch.setenv("RECEIVED", str(tmp_path / "received.json"))
    return tmp_path / "received.json"


@pytest.fixture
def submit(tmp_path: Path, received: Path) -> str:
    script = tmp_path / "spark-submit"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{HERE / "cancel_application.py"}" "$@"\n')
    script.chmod(0o755)
    return str(script)


def said(capsys: Captured, status: int, *argv: str) -> dict[str, Any]:
    assert main([*argv, "--json"]) == status
    captured = capsys.readouterr()
    found: dict[str, Any] = json.loads(captured.err if status else captured.out)
    return found


def test_a_cancel_is_ordered_first_and_then_committed(build: JsonBuild, submit: str, capsys: Captured) -> None:
    found = said(capsys, 0, "cancel", build.location, "--spark-submit", submit)
    assert (found["number"], found["phase"]) == (1, "cancelled")
    assert found["control"]["number"] == 1 and found["control"]["cancelled"]
    assert build.state().phase is Phase.CANCELLED and Path(build.location).is_dir()


def test_a_recovery_says_what_to_do_next(build: JsonBuild, submit: str, capsys: Captured) -> None:
    orders = ("recover", build.location, "--why", "a test", "--spark-submit", submit)
    assert main(orders) == 0
    assert capsys.readouterr().out == "the build goes on in its snapshot phase; clear the task that failed\n"
    assert main([*orders, "--epoch", "7"]) == 0
    assert "goes on from epoch 7; to prove its rows, clear the failed task and" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["plan", "recover", "repair", "prove", "cancel", "cancel --drop"])
def test_what_an_application_answers_has_a_schema(
    command: str, tmp_path: Path, submit: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    source, target = make_source(tmp_path / "source"), tmp_path / "orders"
    spec = json.dumps({"name": "orders", "source": str(source), "target": str(target), "key": ["id"]})
    verb, *more = command.split()
    if verb != "plan":
        built(source, target, "plan", "snapshot", "consume_log", "catch_up", "verify")
    if verb not in ("plan", "prove"):
        more += ["--why", "a test"]
    subject = spec if verb == "plan" else str(target)
    document = said(capsys, 0, verb, subject, *more, "--spark-submit", submit)
    check("certificate" if verb == "prove" else "status", document)


def test_an_application_that_died_is_told_of_afterwards_without_its_output(
    build: JsonBuild, submit: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setenv("FAILS", "")
    failed = said(capsys, 1, "recover", build.location, "--why", "a test", "--spark-submit", submit)
    assert "exit status 1\nException in thread main: no memory" in failed["message"]
    found = said(capsys, 0, "status", build.location)
    health = found["health"]
    assert (health["condition"], health["needs_attention"]) == ("waiting", True)
    assert health["why"].endswith("the recover application ended without an outcome: exit status 1")
    assert health["way_out"].startswith("Nobody tries again: remove the cause, then give the command again.")
    assert "no memory" not in json.dumps(found) and "Airflow" not in health["why"] + health["way_out"]


def test_settings_and_jars_are_passed_on(build: JsonBuild, submit: str, received: Path, capsys: Captured) -> None:
    settings = ["--conf", "spark.master=local[2]", "--conf", "a=b c", "--jars", "/jars/delta.jar"]
    said(capsys, 0, "cancel", build.location, "--spark-submit", submit, *settings)
    given = json.loads(received.read_text())
    ends = ["--conf", "spark.submit.callSystemExitOnMainExit=true"]
    assert given["argv"][: 2 + len(settings)] == ends + settings and "--drop" not in given["argv"]
    assert build.plan().build in given["argv"]
    assert any((Path(part) / "airflow_backfill").is_dir() for part in given["path"].split(":"))


def test_the_builds_own_settings_come_first(build: JsonBuild, submit: str, received: Path, capsys: Captured) -> None:
    old, new = build.attempt(), build.attempt()
    build.reader.control.announce(old, {"conf": {"spark.master": "old"}})
    build.reader.control.announce(new, {"conf": {"spark.master": "spark://host:7077", "spark.jars": "/opt/delta.jar"}})
    build.attempt()
    said(capsys, 0, "cancel", build.location, "--spark-submit", submit, "--conf", "spark.master=local[2]")
    given = json.loads(received.read_text())["argv"]
    assert given[2:8] == [
        *("--conf", "spark.jars=/opt/delta.jar", "--conf", "spark.master=spark://host:7077"),
        *("--conf", "spark.master=local[2]"),
    ]


@pytest.mark.parametrize(
    "record", [{"airflow_backfill": 2}, {"airflow_backfill": 1, "totals": {"log_rows": -50}}, None]
)
def test_a_build_that_cannot_be_read_can_be_dropped(
    record: dict[str, Any] | None, build: JsonBuild, submit: str, capsys: Captured
) -> None:
    lane = f"{build.plan().build}/1/0"
    if record is not None:
        build.land_text(lane, 1, json.dumps(record))
    else:
        build.foreign("RESTORE")
    assert said(capsys, 1, "cancel", build.location, "--spark-submit", submit)["code"] in (
        "RECORD_INVALID",
        "TARGET_DIVERGED",
    )
    found = said(capsys, 0, "cancel", build.location, *DROP, "--spark-submit", submit)
    assert found["dropped"] == [build.location] and not Path(build.location).exists()


def test_nothing_is_dropped_without_a_reason(build: JsonBuild, submit: str, received: Path, capsys: Captured) -> None:
    build.foreign("RESTORE")
    error = said(capsys, 1, "cancel", build.location, "--drop", "--spark-submit", submit)
    assert (error["code"], error["data"]["field"]) == ("SPEC_INVALID", "why")
    assert not received.exists() and Path(build.location).exists()


def test_dropping_says_what_is_gone(build: JsonBuild, submit: str, capsys: Captured) -> None:
    assert main(["cancel", build.location, *DROP, "--spark-submit", submit]) == 0
    assert f"dropped: {build.location}" in capsys.readouterr().out and not Path(build.location).exists()
    assert build.reader.commands(build.draft().build) == []


def test_without_submitting_it_is_only_ordered(build: JsonBuild, capsys: Captured) -> None:
    assert said(capsys, 0, "cancel", build.location, *DROP, "--no-submit") == {"command": "cancel", "number": 1}
    assert build.reader.commands(build.draft().build) == [(1, Command(Verb.CANCEL, drop=True))]
    assert build.state().phase is Phase.SNAPSHOT


@pytest.mark.parametrize(
    ("code", "says"), [("TARGET_BUSY", "holds the lock"), ("", "no memory")], ids=["coded", "lost"]
)
def test_an_application_that_fails_is_told_and_the_cancel_stays_ordered(
    code: str, says: str, build: JsonBuild, submit: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAILS", code)
    error = said(capsys, 1, "cancel", build.location, "--spark-submit", submit)
    assert error["code"] == (code or "APPLICATION_FAILED") and says in error["message"]
    assert build.reader.commands(build.draft().build) == [(1, Command(Verb.CANCEL))]
    monkeypatch.delenv("FAILS")
    assert said(capsys, 0, "cancel", build.location, "--spark-submit", submit)["phase"] == "cancelled"


def test_a_finished_build_is_not_cancelled_and_nothing_is_started(
    tmp_path: Path, submit: str, received: Path, capsys: Captured
) -> None:
    build = JsonBuild(tmp_path / "other")
    build.finished()
    error = said(capsys, 1, "cancel", build.location, "--spark-submit", submit)
    assert (error["code"], error["data"]) == ("NOT_ALLOWED_NOW", {"phase": "finished"})
    assert not received.exists()


def test_a_drop_that_was_stopped_is_ended_in_any_phase(tmp_path: Path, submit: str, capsys: Captured) -> None:
    build = JsonBuild(tmp_path / "other")
    build.finished()
    build.reader.control.begin_drop()
    found = said(capsys, 0, "cancel", build.location, *DROP, "--spark-submit", submit)
    assert found["dropped"] == [build.location]
