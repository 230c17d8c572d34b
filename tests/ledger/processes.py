"""Programs that run beside a test: each says that it is ready, and goes on once all are."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}


def started(program: str, *arguments: object) -> subprocess.Popen[str]:
    """A process of this source text, which has printed that it is ready."""
    command, pipe = [sys.executable, "-c", program, *map(str, arguments)], subprocess.PIPE
    process = subprocess.Popen(command, env=ENVIRONMENT, stdin=pipe, stdout=pipe, text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


def let_go(processes: Sequence[subprocess.Popen[str]]) -> None:
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
