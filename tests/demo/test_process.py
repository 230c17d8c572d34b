"""The processes of a demo: what they start ends with them, and their failures are noticed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from demo.process import ROOT, beside, running, throughout
from tests.waiting import until


def gone(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.parametrize("deaf", ["", "trap '' TERM;"])
def test_a_process_ends_with_all_that_it_has_started(tmp_path, deaf):
    log = tmp_path / "it.log"
    with running(["sh", "-c", f"{deaf} sleep 100 & echo $!; wait"], log, patience_seconds=0.5) as process:
        child = until(lambda: log.read_text().strip())
        assert not gone(child) and process.poll() is None
    assert gone(child) and process.returncode < 0


def test_what_a_process_leaves_behind_is_ended_too(tmp_path):
    log = tmp_path / "it.log"
    with running(["sh", "-c", "sleep 100 & echo $!"], log) as process:
        process.wait()
    assert gone(log.read_text().strip())


def test_a_command_beside_a_block_has_to_succeed(tmp_path):
    with beside(["sh", "-c", "exit 0"], tmp_path / "it.log"):
        pass
    with pytest.raises(SystemExit, match=r"(?s)it failed.*what it said"):
        with beside(["sh", "-c", "echo what it said; exit 3"], tmp_path / "it.log"):
            pass


def test_a_command_throughout_a_block_must_not_end_whatever_it_says(tmp_path):
    with throughout(["sleep", "100"], tmp_path / "it.log") as check:
        check()
    with pytest.raises(SystemExit, match="it failed"):
        with throughout(["true"], tmp_path / "it.log") as check:
            until(lambda: _left(check))


def _left(check):
    try:
        check()
    except SystemExit:
        return True
    return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_program_and_what_it_has_started(tmp_path, number):
    program = f"""
import time
from pathlib import Path
from demo.process import end_in_order, running
end_in_order()
with running(["sh", "-c", "sleep 100 & echo $!; wait"], Path({str(tmp_path / "it.log")!r})):
    time.sleep(100)
"""
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT) as process:
        child = until(lambda: (tmp_path / "it.log").exists() and (tmp_path / "it.log").read_text().strip())
        os.kill(process.pid, number)
        assert process.wait(30) == 128 + number
    assert gone(child)
