"""The table of behaviours names every item of the seeds, and only tests that exist and that would notice."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.broken import Broken, noticed
from tests.broken_behaviours import BROKEN

ROOT = Path(__file__).parents[1]
ITEMS = [
    *(f"S000.{n}" for n in range(1, 46)),
    *(f"S001.{n}" for n in range(1, 51)),
    *(f"S002.{n}" for n in range(1, 26)),
    *(f"S003.{n}" for n in range(1, 40)),
    *(f"S004.{n}" for n in range(1, 46)),
]


def lines() -> dict[str, tuple[list[str], str]]:
    """Per item, the tests that are named and what is said beside."""
    text = (ROOT / "tests" / "BEHAVIOURS.md").read_text()
    found: dict[str, tuple[list[str], str]] = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if re.match(r"S00\d\.\d+$", cells[0]):
            assert cells[0] not in found, f"{cells[0]} twice"
            found[cells[0]] = (re.findall(r"`(tests/[^`]*::[^`]*)`", cells[2]), cells[3])
    return found


@cache
def functions(file: Path) -> frozenset[str]:
    return frozenset(node.name for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.FunctionDef))


def test_every_item_has_a_line_in_order() -> None:
    assert list(lines()) == ITEMS


@pytest.mark.parametrize("item", ITEMS)
def test_an_item_is_shown_or_it_is_said_why_not(item: str) -> None:
    tests, said = lines()[item]
    assert tests or said
    missing = []
    for test in tests:
        path, _, name = test.partition("::")
        file = ROOT / path
        if not file.is_file() or name not in functions(file):
            missing.append(test)
    assert missing == []


def quick(item: str) -> list[str]:
    """The tests of an item that run the core alone, in the order in which they are named."""
    tests, _ = lines()[item]
    return [test for test in tests if test.startswith("tests/core/") and "mutants" not in test]


@pytest.mark.parametrize("edit", BROKEN, ids=lambda edit: edit.name)
def test_the_tests_of_an_item_notice_when_it_is_broken(edit: Broken) -> None:
    assert [item for item in edit.items if not noticed(edit, quick(item))] == []
