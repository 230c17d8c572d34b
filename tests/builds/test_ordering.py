from __future__ import annotations

import json
import shutil
from pathlib import Path
from threading import Thread

import pytest

from airflow_backfill.builds.ordering import acknowledged, ordered
from airflow_backfill.cli.main import main
from airflow_backfill.core.errors import BackfillError
from airflow_backfill.core.values.control import Command, Verb
from airflow_backfill.ledger.control_folder import SUFFIX
from airflow_backfill.ledger.reader import BuildReader
from tests.core.tasks import CANCEL, READ, follow
from tests.failing import Away
from tests.ledger.json_target import JsonBuild

Captured = pytest.CaptureFixture[str]

ALL = frozenset(Verb) - {Verb.SKIP, Verb.DEAD_LETTER}
"""Of a table there is nothing to skip or to decode."""


@pytest.fixture
def build(tmp_path: Path) -> JsonBuild:
    return JsonBuild(tmp_path)


def in_phase(build: JsonBuild, phase: str) -> None:
    match phase:
        case "snapshot":
            build.plan()
        case "consume_log":
            build.sealed()
        case "catch_up":
            build.caught_up()
        case "finished":
            build.finished()
        case "upstream":
            build.finished()
            build.write()
            build.run(follow(build.source.head))
        case "cancelled":
            build.plan()
            build.run(CANCEL)
    assert build.state().phase.value == phase


@pytest.mark.parametrize(
    ("phase", "allowed"),
    [
        ("snapshot", ALL),
        ("consume_log", ALL),
        ("catch_up", ALL - {Verb.HOLD, Verb.RELEASE}),
        ("finished", ALL - {Verb.HOLD, Verb.RELEASE, Verb.CANCEL}),
        ("upstream", ALL - {Verb.HOLD, Verb.RELEASE, Verb.CANCEL}),
        ("cancelled", {Verb.CANCEL}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_phase_takes_the_commands_that_can_do_something_in_it(
    phase: str, allowed: set[Verb], build: JsonBuild
) -> None:
    in_phase(build, phase)
    for verb in Verb:
        try:
            ordered(build.location, Command(verb))
        except BackfillError as error:
            assert (error.code, error.data) == ("NOT_ALLOWED_NOW", {"phase": phase})
            assert verb not in allowed
        else:
            assert verb in allowed
    assert len(build.reader.commands(build.draft().build)) == len(allowed)


def test_after_a_lost_folder_numbers_go_on_above_the_last_that_a_barrier_acknowledged(build: JsonBuild) -> None:
    build.plan()
    for verb in (Verb.HOLD, Verb.RELEASE, Verb.HOLD):
        ordered(build.location, Command(verb))
    build.run(READ)
    shutil.rmtree(build.location + SUFFIX)
    assert ordered(build.location, Command(Verb.RELEASE)) == 4


def test_waiting_ends_when_a_barrier_acknowledges(build: JsonBuild) -> None:
    build.plan()
    number = ordered(build.location, Command(Verb.HOLD))
    worker = Thread(target=lambda: build.run(READ))
    worker.start()
    assert acknowledged(build.location, number, seconds=60)
    worker.join()
    assert build.state().control.held


def test_waiting_goes_on_while_the_store_is_away(build: JsonBuild, monkeypatch: pytest.MonkeyPatch) -> None:
    build.plan()
    number = ordered(build.location, Command(Verb.HOLD))
    build.run(READ)
    away = Away(2)
    monkeypatch.setattr(BuildReader, "state", away.wrapped(BuildReader.state))
    assert acknowledged(build.location, number, seconds=60)
    assert away.left == 0


def test_waiting_for_nobody_ends_with_1_and_says_so(build: JsonBuild, capsys: Captured) -> None:
    build.plan()
    assert main(["pause", build.location, "--wait", "0", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {"command": "pause", "number": 1, "acknowledged": False}
    assert main(["pause", build.location, "--wait", "0"]) == 1
    assert "not acknowledged within 0 s" in capsys.readouterr().out


@pytest.mark.parametrize("rate", ["-1", "1.5", "1e3", "NaN", "", " 5", "5 ", "٣", "9" * 16, "None", "0x10"])
def test_what_is_no_rate_is_refused(rate: str, build: JsonBuild, capsys: Captured) -> None:
    build.plan()
    try:
        code = main(["throttle", "--json", build.location, "--", rate])
    except SystemExit as ended:
        code = ended.code
    assert code in (1, 2)
    if code == 1:
        assert json.loads(capsys.readouterr().err)["data"]["field"] == "rate"
    assert not build.reader.commands(build.draft().build)


@pytest.mark.parametrize(
    "target", ["relative/path", "", "/a/../b", "s3a://AK:CANARYSECRET@bucket/x", "s3://b/x?sig=CANARYSECRET"]
)
def test_a_target_that_is_no_location_is_refused_without_its_secrets(target: str, capsys: Captured) -> None:
    for command in ("status", "pause", "hold"):
        assert main([command, target, "--json"]) == 1
        captured = capsys.readouterr()
        assert json.loads(captured.err)["code"] == "SPEC_INVALID"
        assert "CANARYSECRET" not in captured.out + captured.err


def test_a_target_that_somebody_else_changed_is_not_commanded(build: JsonBuild, capsys: Captured) -> None:
    build.sealed()
    build.foreign("RESTORE", data_change=False)
    assert main(["pause", build.location]) == 1
    assert capsys.readouterr().err.startswith("[TARGET_DIVERGED]")
    assert not build.reader.commands(build.draft().build)
