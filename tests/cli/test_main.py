"""The command line over real logs: what it says, what it orders, what it refuses."""

from __future__ import annotations

import getpass
import json
import random
import shutil
from pathlib import Path

import pytest

from airflow_backfill.cli.main import main
from airflow_backfill.cli.parser import HELP
from airflow_backfill.core.errors import Cancelled
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.ledger.control_folder import location_beside
from tests.core.tasks import CANCEL, CATCH_UP, CONSUME, FINISH, READ, VERIFY
from tests.ledger.json_target import JsonBuild

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def build(tmp_path: Path) -> JsonBuild:
    made = JsonBuild(tmp_path)
    made.plan()
    return made


def finish(build: JsonBuild) -> None:
    for task in (READ, CONSUME, CATCH_UP, VERIFY, FINISH):
        build.run(task)


def said(capsys: Captured, *argv: str) -> dict:
    assert main([*argv, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def refused(capsys: Captured, *argv: str) -> str:
    assert main([*argv, "--json"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    return json.loads(captured.err)["code"]


def test_status_says_where_a_build_is(build: JsonBuild, capsys: Captured) -> None:
    found = said(capsys, "status", build.location)
    assert (found["phase"], found["percent"], found["epoch"]) == ("snapshot", 0.0, None)
    build.write(times=3)
    build.run(READ)
    found = said(capsys, "status", build.location)
    assert (found["percent"], found["lag"]["epochs"]) == (80.0, 3)
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
        (["cancel", "--drop", "--why", "a test", "--no-submit"], Command(Verb.CANCEL, drop=True)),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_command_lies_beside_the_target(
    build: JsonBuild, capsys: Captured, argv: list[str], command: Command
) -> None:
    verb, *rest = argv
    assert said(capsys, verb, build.location, *rest)["number"] == 1
    assert list(build.reader.commands(build.state().plan.build)) == [(1, command)]


def test_a_command_says_who_why_and_until_when(build: JsonBuild, capsys: Captured) -> None:
    said(capsys, "pause", build.location, "--by", "ana", "--why", "the store is full")
    said(capsys, "throttle", build.location, "5", "--until", "2100-01-01T00:00+00:00")
    (_, pause), (_, throttle) = build.reader.commands(build.state().plan.build)
    assert (pause.signed.by, pause.signed.why, pause.signed.via) == ("ana", "the store is full", "cli")
    assert throttle.signed.by == getpass.getuser() and throttle.until == 4_102_444_800_000
    assert refused(capsys, "throttle", build.location, "5", "--until", "tomorrow") == "SPEC_INVALID"
    assert refused(capsys, "throttle", build.location, "5", "--until", "2001-01-01T00:00Z") == "SPEC_INVALID"


def test_what_rewrites_rows_needs_a_reason(build: JsonBuild, capsys: Captured) -> None:
    for argv in (["recover", "--epoch", "1"], ["repair"], ["cancel", "--drop"]):
        assert refused(capsys, argv[0], build.location, *argv[1:], "--spark-submit", "/nonexistent") == "SPEC_INVALID"
    assert len(build.reader.control.attempts()) == 1


def test_status_tells_what_is_ordered_from_what_is_acknowledged(build: JsonBuild, capsys: Captured) -> None:
    said(capsys, "throttle", build.location, "1000000")
    assert main(["status", build.location]) == 0
    assert "waits for the next barrier, which acknowledges commands up to 1" in capsys.readouterr().out
    build.run(READ)
    found = said(capsys, "status", build.location)
    assert (found["control"]["number"], found["control"]["rate"], found["ordered"]) == (1, 1000000, 1)


def test_a_cancel_stops_the_next_attempt(build: JsonBuild, capsys: Captured) -> None:
    said(capsys, "cancel", build.location, "--no-submit")
    with pytest.raises(Cancelled):
        build.run(READ)
    build.run(CANCEL)
    assert refused(capsys, "pause", build.location) == "NOT_ALLOWED_NOW"


def test_what_could_have_no_effect_is_refused(build: JsonBuild, capsys: Captured) -> None:
    finish(build)
    for verb in ("cancel", "hold", "release"):
        assert refused(capsys, verb, build.location) == "NOT_ALLOWED_NOW"
    assert refused(capsys, "throttle", build.location, "fast") == "SPEC_INVALID"
    assert refused(capsys, "status", build.spec.source) == "NOT_PLANNED"
    assert refused(capsys, "status", build.location + "x") == "NOT_PLANNED"
    assert list(build.reader.commands(build.state().plan.build)) == []


def test_a_cancel_whose_application_cannot_start_says_so(build: JsonBuild, capsys: Captured) -> None:
    command = ["cancel", build.location, "--spark-submit", "/nonexistent/spark-submit"]
    assert refused(capsys, *command) == "SPEC_INVALID"
    assert list(build.reader.commands(build.state().plan.build)) == [(1, Command(Verb.CANCEL))]


def test_a_wrong_command_line_ends_with_2() -> None:
    with pytest.raises(SystemExit) as ended:
        main(["stop", "/t"])
    assert ended.value.code == 2


def test_a_file_in_the_place_of_the_control_folder_is_refused(build: JsonBuild, capsys: Captured) -> None:
    shutil.rmtree(location_beside(build.location))
    Path(location_beside(build.location)).write_text("mine")
    assert refused(capsys, "pause", build.location) == "TARGET_EXISTS"


def test_recover_writes_nothing_beside_a_table_that_no_build_made(build: JsonBuild, capsys: Captured) -> None:
    for place in (build.spec.source, build.location + "x"):
        assert place is not None
        assert refused(capsys, "recover", place, "--epoch", "3", "--why", "x", "--spark-submit", "/no") == "NOT_PLANNED"
        assert not Path(location_beside(place)).exists()


ODD = (
    "", " ", "x", "-1", "0", "1e400", "nan", "inf", "none", "9" * 400, "²", "\x00", "--", "-", "--json", "../t",
    ".backfill", "s3:/b/x", "s3a://AK:SK@b/x", "zzz://b/x", "file:", "file:/", "file://host/x", "/" + "x" * 300,
)  # fmt: skip


def test_any_command_line_ends_with_a_code_or_a_usage(build: JsonBuild, capsys: Captured) -> None:
    rng = random.Random(13)
    for _ in range(100):
        words = [rng.choice([*HELP, ""]), build.location, "--json"]
        words += rng.choice([[], ["--wait", "0"], ["--epoch", "1"], ["--bytes", "1"], ["--spark-submit", "/no"]])
        for _ in range(rng.randrange(1, 4)):
            words[rng.randrange(len(words))] = rng.choice(ODD)
        try:
            ended = main(words)
        except SystemExit as usage:
            assert usage.code in (0, 2)
            continue
        said = capsys.readouterr()
        assert ended == 0 or "[" in said.err or '"code"' in said.err, words
        assert "SK@" not in said.err + said.out
