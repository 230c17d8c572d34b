"""What the classes of the Airflow side document is what they take: every parameter under its own name, and no other.
Every example DAG is in the index.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "airflow_backfill"
ADAPTERS = ("hooks", "operators", "sensors", "task_groups")
CLASSES = {
    node.name: node
    for folder in ADAPTERS
    for file in (PACKAGE / folder).glob("*.py")
    for node in ast.parse(file.read_text()).body
    if isinstance(node, ast.ClassDef)
}


def said(node: ast.ClassDef) -> set[str]:
    return set(re.findall(r":param (\w+):", ast.get_docstring(node) or ""))


def taken(node: ast.ClassDef) -> set[str]:
    """What the constructor of the class itself takes by name."""
    makers = (n.args for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__")
    names = {a.arg for made in makers for a in (*made.args, *made.kwonlyargs)} - {"self"}
    fields = {ast.unparse(n.target) for n in node.body if isinstance(n, ast.AnnAssign)}
    return names | (fields if any("dataclass" in ast.unparse(by) for by in node.decorator_list) else set())


def inherited(node: ast.ClassDef) -> set[str]:
    bases = [CLASSES[base.id] for base in node.bases if isinstance(base, ast.Name) and base.id in CLASSES]
    return set().union(*(taken(base) | inherited(base) for base in bases))


def test_every_parameter_is_documented_under_its_own_name() -> None:
    documented = {name: node for name, node in CLASSES.items() if said(node)}
    assert len(documented) > 5
    wrong = {
        name: sorted((said(node) - taken(node) - inherited(node)) | (taken(node) - said(node)))
        for name, node in documented.items()
    }
    assert {name: names for name, names in wrong.items() if names} == {}


def test_every_example_is_in_the_index() -> None:
    listed = re.findall(r"^\| `(\w+\.py)` \|", (ROOT / "dags" / "README.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(file.name for file in (ROOT / "dags").glob("*.py"))


def test_what_the_architecture_says_is_where_is_there() -> None:
    rows = re.findall(r"^\| (.*\?) \| (.*) \| (.*) \|$", (ROOT / "docs" / "architecture.md").read_text(), re.MULTILINE)
    assert len(rows) >= 15
    for question, files, names in rows:
        code = "".join((PACKAGE / file).read_text() for file in re.findall(r"`([\w/]+\.py)`", f"{files} {names}"))
        for name in re.findall(r"`(\w+)`", names):
            assert re.search(rf"^(class|def) {name}\b", code, re.MULTILINE), (question, name)
