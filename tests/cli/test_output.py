"""Where the answer goes: to a reader that has ended, to nobody, to a terminal that lacks a character."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_backfill.cli.main import UNREAD
from tests.ledger.json_target import JsonBuild

COMMAND = (sys.executable, "-m", "airflow_backfill.cli.main")


@pytest.fixture
def build(tmp_path: Path) -> JsonBuild:
    made = JsonBuild(tmp_path / "zürich")
    made.plan()
    return made


@pytest.mark.parametrize("more", [(), ("--json",), ("--watch", "0.2")])
def test_a_reader_that_has_ended_is_no_error(build: JsonBuild, more: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    argv = [*COMMAND, "status", build.location, *more]
    try:
        done = subprocess.run(argv, stdout=writing, stderr=subprocess.PIPE, timeout=60)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (UNREAD, b"")


@pytest.mark.parametrize("argv", [("pause",), ("status", "--json"), ("status",)])
def test_an_output_that_is_closed_is_no_error(build: JsonBuild, argv: tuple[str, ...]) -> None:
    closed = ["sh", "-c", 'exec "$@" >&-', "sh", *COMMAND, *argv, build.location]
    done = subprocess.run(closed, stderr=subprocess.PIPE, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_character_that_the_terminal_lacks_is_escaped(build: JsonBuild) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([*COMMAND, "status", build.location], env=environment, capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"") and rb"z\xfcrich" in done.stdout
