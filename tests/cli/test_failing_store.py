"""A store that does not answer once, at any operation of a command: a coded error, and the same command then works."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_backfill.cli.main import main
from tests.core.tasks import CONSUME, READ
from tests.failing import Failing
from tests.ledger.json_target import JsonBuild

COMMANDS = {
    "list": ["list", "{folder}"],
    "status": ["status", "{target}"],
    "pause": ["pause", "{target}"],
    "throttle": ["throttle", "{target}", "500"],
    "cancel": ["cancel", "{target}", "--drop", "--why", "a test", "--no-submit"],
    "clean": ["clean", "{target}"],
}


@pytest.mark.soak
@pytest.mark.parametrize("done", [False, True], ids=["not done", "answer lost"])
@pytest.mark.parametrize("name", COMMANDS)
def test_at_any_operation(
    tmp_path: Path, failing: Failing, capsys: pytest.CaptureFixture[str], name: str, done: bool
) -> None:
    build = JsonBuild(tmp_path)
    build.plan()
    build.run(READ)
    build.write(times=2)
    build.run(CONSUME)
    words = [word.format(folder=tmp_path, target=build.location) for word in COMMANDS[name]]
    failing.count, failing.done = 0, done
    assert main([*words, "--json"]) == 0
    total = failing.count
    capsys.readouterr()
    for at in range(1, total + 1):
        failing.count, failing.at = 0, at
        code = main([*words, "--json"])
        failing.at = 0
        said = capsys.readouterr()
        if name == "list" and said.out:
            [line] = json.loads(said.out)["builds"]
            assert (line["state"] == "unreachable") == (code == 1), line
        elif code != 0:
            assert (code, json.loads(said.err)["code"]) == (1, "SOURCE_UNAVAILABLE")
        assert main([*words, "--json"]) == 0
        capsys.readouterr()
