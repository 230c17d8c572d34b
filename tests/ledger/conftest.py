from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

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


@pytest.fixture(scope="session")
def jars() -> Path:
    """The folder with Delta's jars for Spark."""
    folder = Path(os.environ.get("TABLE_BACKFILL_JARS", REPO / ".venv" / "jars"))
    assert list(folder.glob("delta-spark*.jar")), f"no Delta jars in {folder}; set TABLE_BACKFILL_JARS"
    return folder


@pytest.fixture(scope="session")
def sample(run: Run, jars: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A folder with two tables that Spark wrote, and what Spark says of them."""
    folder = tmp_path_factory.mktemp("sample")
    run("write_sample.py", folder, jars, timeout=900)
    return folder, json.loads((folder / "expected.json").read_text())
