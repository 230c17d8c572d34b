"""Tests that pages of the documentation name, as ``tests/some/test_file.py::test_name``."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]


def missing(tests: Iterable[str]) -> list[str]:
    """Those of the named tests that do not exist."""
    return [test for test in tests if not _exists(*test.split("::"))]


def _exists(path: str, name: str) -> bool:
    file = ROOT / path
    return file.is_file() and name in _functions(file)


@cache
def _functions(file: Path) -> frozenset[str]:
    return frozenset(node.name for node in ast.parse(file.read_text()).body if isinstance(node, ast.FunctionDef))
