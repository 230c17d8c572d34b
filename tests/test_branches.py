"""Where the package still branches on the kind of a build: outside of the strategies hardly anywhere.

Counted are a type test, a ``match`` on a class, a strategy's name that is compared or matched, and a question whether
there is a topic. A strategy's own modules may know what they are: ``core/strategies``, ``core/splits``,
``spark/strategies``, and the rooms in which only topics live.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "airflow_backfill"
OWN = ("core/strategies", "core/splits", "core/kafka", "spark/strategies", "spark/kafka", "spark/session/kafka_failure")
KINDS = {"FileSplits", "KeyRanges", "Partitions", "AtFile", "AtKey", "AtOffset"}
KINDS |= {"Snapshot", "Arrangement", "Chain", "Source"}
NAMES = {"snapshot", "arrangement", "chain", "source"}
TOPIC = re.compile(r"\btopic('\])?('\))?$")
MOST, MOST_FILES = 15, 6


def branches(tree: ast.AST) -> Iterator[int]:
    """The lines at which a module branches on the kind."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name("isinstance"), args=[_, kinds]) if _mentions(kinds, KINDS):
                yield node.lineno
            case ast.MatchClass(cls=kind) if _mentions(kind, KINDS):
                yield node.lineno if hasattr(node, "lineno") else 0
            case ast.Compare(left=left, comparators=others):
                sides = [left, *others]
                named = any(isinstance(side, ast.Constant) and side.value in NAMES for side in sides)
                strategy = any("strategy" in ast.unparse(side) for side in sides)
                topic = any(TOPIC.search(ast.unparse(side)) for side in sides)
                if (named and strategy) or (topic and any(_is_none(side) for side in sides)):
                    yield node.lineno
            case ast.Dict(keys=keys) if keys and {k.value for k in keys if isinstance(k, ast.Constant)} & NAMES:
                values = [value for value in node.values if not isinstance(value, ast.Constant)]
                if values and all(isinstance(k, ast.Constant) and k.value in NAMES for k in keys):
                    yield node.lineno
            case ast.MatchValue(value=ast.Constant(value=name)) if name in NAMES:
                yield node.lineno
            case ast.If() | ast.IfExp() | ast.While() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()) | ast.comprehension():
                yield from (one.lineno for one in _conditions(node) if TOPIC.search(ast.unparse(one)))


def _conditions(node: ast.AST) -> list[ast.expr]:
    """What is asked for its truth. A comparison is counted as such."""
    match node:
        case ast.If(test=asked) | ast.IfExp(test=asked) | ast.While(test=asked) | ast.UnaryOp(operand=asked):
            found = [asked]
        case ast.BoolOp(values=found) | ast.comprehension(ifs=found):
            pass
        case _:
            found = []
    return [one for one in found if isinstance(one, ast.Name | ast.Attribute | ast.Subscript | ast.Call)]


def _mentions(node: ast.AST, names: set[str]) -> bool:
    return any(isinstance(one, ast.Name) and one.id in names for one in ast.walk(node))


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def test_few_branches_on_the_kind_are_left() -> None:
    found = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        place = str(file.relative_to(PACKAGE))
        lines = [] if place.startswith(OWN) else list(branches(ast.parse(file.read_text())))
        found |= {place: lines} if lines else {}
    assert sum(map(len, found.values())) <= MOST, found
    assert len(found) <= MOST_FILES, found


@pytest.mark.parametrize(
    "text",
    [
        "isinstance(plan.splits, FileSplits)",
        "isinstance(position, AtKey | AtOffset)",
        "assert isinstance(p, (AtFile, Consumed))",
        "match x:\n    case Partitions(): pass",
        "spec.strategy == 'chain'",
        "self._spec.topic is not None",
        "options.get('topic') is None",
        "WHY = {'chain': f, 'source': g}",
        "match name:\n    case 'chain' | 'source': pass",
        "x = 1 if spec.topic else 2",
        "if not found['topic']: pass",
        "[x for x in y if x.topic]",
        "wanted and spec.topic",
    ],
)
def test_each_kind_of_branch_is_seen(text: str) -> None:
    assert list(branches(ast.parse(text)))
