"""Deliberate bugs are the bugs that they say: none is noticed only because it names what is not there."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.broken_behaviours import BROKEN
from tests.broken_mends import MENDS
from tests.core.kafka.mutants import MUTANTS as OF_STATES
from tests.mutation import Edit, holding
from tests.simulation.mutants import MUTANTS

ROOT = Path(__file__).parents[1]
EDITS: list[Edit] = [*MUTANTS, *BROKEN, *MENDS, *OF_STATES]
OWN = re.compile(r"\bself\.(\w+)")
DEFINED = re.compile(r"^ +(?:def )?(\w+)(?:\(|:|, )", re.MULTILINE)
"""Methods, and fields of a class."""


@pytest.mark.slow
def test_no_edit_names_what_is_defined_nowhere(tmp_path: Path) -> None:
    for number, edit in enumerate(EDITS):
        (tmp_path / f"{number:03}.py").write_text(edit.applied(holding(edit).read_text()))
    ruff = [
        Path(sys.executable).with_name("ruff"),
        "check",
        "--isolated",
        "--select",
        "F821",
        "--output-format",
        "concise",
    ]
    found = subprocess.run([*ruff, tmp_path], capture_output=True, text=True, check=False).stdout
    wrong = {EDITS[int(number)].name for number in re.findall(r"(\d{3})\.py:\d+", found)}
    assert wrong == set(), found


def test_the_tests_that_notice_are_there() -> None:
    for test in {test for mend in MENDS for test in mend.tests}:
        path, _, name = test.partition("::")
        assert f"def {name.partition('[')[0]}(" in (ROOT / path).read_text(), test


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.name)
def test_an_edit_imports_and_asks_its_object_only_for_what_is_there(edit: Edit) -> None:
    text = holding(edit).read_text()
    assert set(OWN.findall(edit.after)) <= {*OWN.findall(text), *DEFINED.findall(text)}
    for node in ast.walk(ast.parse(edit.applied(text))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("airflow_backfill."):
            module = importlib.import_module(node.module)
            gone = [name.name for name in node.names if not hasattr(module, name.name)]
            submodules = [name for name in gone if (Path(str(module.__file__)).parent / f"{name}.py").exists()]
            assert gone == submodules
