"""What the documents show works: Python runs, commands are taken by their own parsers, make knows its targets."""

from __future__ import annotations

import ast
import re
import shlex
import textwrap
from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import BundleDagBag

from airflow_backfill.cli import parser as command_line

ROOT = Path(__file__).parents[1]
PAGES = sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "dags").glob("*.md")})
GENERATED = {"docs/command_line_json.md", "docs/configuration.md", "docs/errors.md"}
TEXTS = {name: page.read_text() for page in PAGES if (name := str(page.relative_to(ROOT))) not in GENERATED}
BLOCKS = [
    pytest.param(language, code, id=f"{name}-{number}")
    for name, text in TEXTS.items()
    for number, (language, code) in enumerate(re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
]
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
PHASES = {"plan", "snapshot", "consume_log", "gate", "catch_up", "verify", "finish"}

# Where a page shows only what goes into a DAG.
AROUND = """from airflow.sdk import DAG
from airflow_backfill.task_groups.backfill import BackfillTaskGroup

with DAG("around", schedule=None):
"""


def python() -> list[str]:
    return [block.values[1] for block in BLOCKS if block.values[0] == "python"]


def commands() -> set[str]:
    """Every command that a page shows, in a block or in a line of text."""
    lines = {line for block in BLOCKS if block.values[0] == "sh" for line in block.values[1].splitlines()}
    inline = {code for text in TEXTS.values() for code in re.findall(r"`((?:make|table-backfill) [^`]+)`", text)}
    return {line.partition("#")[0].strip() for line in lines | inline} - {""}


@pytest.mark.parametrize("code", python())
def test_python_makes_a_dag_and_a_group_has_every_phase(code: str, tmp_path: Path) -> None:
    (tmp_path / "snippet.py").write_text(code if "with DAG" in code else AROUND + textwrap.indent(code, "    "))
    bag = BundleDagBag(dag_folder=str(tmp_path), bundle_path=tmp_path, bundle_name="snippets")
    assert bag.import_errors == {}
    (dag,) = bag.dags.values()
    tasks = {task.task_id.rpartition(".")[2] for task in dag.tasks}
    assert tasks >= (PHASES if "BackfillTaskGroup(" in code else set()) and tasks


@pytest.mark.parametrize("command", sorted(commands()))
def test_a_command_is_one(command: str) -> None:
    program, *arguments = shlex.split(command)
    if program == "make":
        assert set(arguments) <= TARGETS
    elif program == "table-backfill":
        options = command_line.parser().parse_args(arguments)
        assert options.command
    else:
        assert re.fullmatch(r"pip install airflow-backfill(\[spark\])?", " ".join((program, *arguments)))


def named_by_messages() -> set[str]:
    """Every command line in the texts of the package: in errors, ways out and status lines."""
    found: set[str] = set()
    for file in (ROOT / "airflow_backfill").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            text = "".join(part.value if isinstance(part, ast.Constant) else "1" for part in parts if _says(part))
            found |= set(re.findall(r"[`'(](table-backfill [a-z]+ [^`')]+)", text))
    return {re.sub(r" (N|EPOCH|RATE)\b", " 1", command) for command in found}


def _says(node: ast.AST) -> bool:
    return isinstance(node, ast.FormattedValue) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


@pytest.mark.parametrize("command", sorted(named_by_messages()))
def test_a_command_that_a_message_names_can_be_run_as_it_stands(command: str) -> None:
    options = command_line.parser().parse_args(shlex.split(command)[1:])
    if options.command in ("recover", "repair") or getattr(options, "drop", False):
        assert options.why, "refused without a reason"


def test_there_are_snippets() -> None:
    assert len(named_by_messages()) >= 10
    assert len(python()) >= 3 and len(commands()) >= 10
