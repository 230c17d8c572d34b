from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.ledger.json_target import JsonBuild

HERE = Path(__file__).parent
REPO = HERE.parents[1]

Run = Callable[..., str]
WriteLog = Callable[[Mapping[str, bytes | str]], Path]


@pytest.fixture(scope="session")
def run() -> Run:
    """Run a program of this folder, or source text, and return what it prints; fail with its errors."""

    def _run(program: str, *arguments: object, timeout: int = 120, **environment: str) -> str:
        source = [str(HERE / program)] if program.endswith(".py") else ["-c", program]
        done = subprocess.run(
            [sys.executable, *source, *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": str(REPO), **environment},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return done.stdout

    return _run


@pytest.fixture
def write_log(tmp_path: Path) -> WriteLog:
    """Make a table whose ``_delta_log`` holds the given files; returns the table's folder."""

    def _write(files: Mapping[str, bytes | str]) -> Path:
        for name, content in files.items():
            path = tmp_path / "table" / "_delta_log" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        return tmp_path / "table"

    return _write


@pytest.fixture
def build(tmp_path: Path) -> JsonBuild:
    return JsonBuild(tmp_path)
