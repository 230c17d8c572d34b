"""``make quick`` chooses its tests by itself, and does not let one start Java in silence."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TESTS = """
import subprocess

import pytest

from tests.mutation import Edit


@pytest.fixture
def spark():
    return None


def test_plain():
    pass


def test_with_a_session(spark):
    pass


@pytest.mark.slow
def test_slow():
    pass


@pytest.mark.parametrize("bug", [Edit("a bug", "1", "2")])
def test_with_a_bug(bug):
    pass


def test_starts_java_and_hides_it():
    subprocess.run(["java", "-version"], check=False)
"""


@pytest.mark.slow
def test_what_needs_more_is_left_out_and_who_starts_java_is_told(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-p", "tests.quick", "-v", "-c", "/dev/null", f"--rootdir={tmp_path}"]
    done = subprocess.run([*command, tmp_path], cwd=ROOT, capture_output=True, text=True, check=False)
    assert "test_some.py::test_plain PASSED" in done.stdout
    assert "test_some.py::test_starts_java_and_hides_it ERROR" in done.stdout
    assert "mark this test with `jvm`" in done.stdout and "java -version" in done.stdout
    assert "2 passed, 3 deselected" in done.stdout
    assert done.returncode == 1
