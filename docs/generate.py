"""Writes ``errors.md``, ``configuration.md`` and ``command_line_json.md`` from the code, before Sphinx reads the pages.

An extension of Sphinx; ``python docs/generate.py`` writes them without it. Nothing of Airflow or Spark is imported:
what their classes take is read from the sources.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import fields
from enum import Enum
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parent
PACKAGE = ROOT / "airflow_backfill"
# Sphinx loads this module from its own folder.
sys.path.insert(0, str(ROOT))

from airflow_backfill.cli import parser as command_line  # noqa: E402
from airflow_backfill.core.errors import kinds  # noqa: E402
from airflow_backfill.core.gates import max_lag  # noqa: E402
from airflow_backfill.core.kafka import decoding, topic_spec  # noqa: E402
from airflow_backfill.core.model.spec import BackfillSpec  # noqa: E402
from airflow_backfill.core.reports.way_out import WAYS_OUT  # noqa: E402
from airflow_backfill.core.values import bound, round_size  # noqa: E402
from airflow_backfill.spark.run import landing_app, phases  # noqa: E402
from airflow_backfill.spark.service import application as service  # noqa: E402

ADAPTERS = ("task_groups", "operators", "sensors", "hooks")
NAMED = {
    "RowHash.TYPED.value": "'typed'",
    "conf.getboolean('operators', 'default_deferrable', fallback=False)": "[operators] default_deferrable",
}
"""Defaults that are not written as their value."""
INHERITED = "Also takes the parameters of"
Row = Sequence[str]


def table(head: Row, rows: Iterator[Row]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def one_line(text: str | None) -> str:
    """Text of a docstring as Markdown, in one line: literals have one backtick, and ``<name>`` is no HTML."""
    parts = re.split(r"(`[^`]*`)", " ".join((text or "").split()).replace("``", "`"))
    return "".join(part if part.startswith("`") else part.replace("<", r"\<") for part in parts)


# Errors


def errors() -> str:
    parts = [
        "# Errors\n",
        "Every error has a stable code. A *final* error fails the task for good: Airflow does not retry it. A "
        "*retryable* one is tried again. The message holds the numbers; `table-backfill` and the task's log "
        "add the way out.\n",
        "`TARGET` is the location of the target table. To *clear a task* is to clear it in Airflow together with the "
        "tasks after it (*Downstream*). `on_existing='restart'` is an option in the DAG: see "
        "[start again from nothing](operating.md#start-again-from-nothing).\n",
    ]
    for kind in sorted(kinds(), key=lambda kind: kind.code):
        parts += [
            f"## {kind.code}\n",
            f"{'Retryable' if kind.retry else 'Final'}. {one_line(kind.__doc__)}\n",
            f"**What to do:** {one_line(WAYS_OUT[kind.code])}\n",
        ]
    return "\n".join(parts)


# Options


def configuration() -> str:
    parts = [
        "# Configuration\n",
        "## The spec\n",
        "What is built. A build keeps these values from the plan to its end.\n",
        table(("option", "default", "meaning"), _spec()),
        "### `topic`\n",
        table(("option", "default", "meaning"), _topic()),
        "## Operators, sensors and hooks\n",
        "Every class also takes the parameters of the Airflow class it is made from.\n",
    ]
    known = adapters()
    for name, node in known.items():
        parts += [f"### {name}\n", *(f"{INHERITED} `{base}`.\n" for base in _bases(node) if base in known)]
        if parameters(node):
            parts += [table(("parameter", "default", "meaning"), _parameters(node))]
    parts += ["## Command line\n", _commands(command_line.parser()), "## Spark applications\n"]
    parts += ["For launchers other than spark-submit. The entry points are in `spark_apps`.\n"]
    applications = [phases.parser(name) for name in phases.APPLICATIONS]
    for parser in (*applications, service.parser(), landing_app.parser()):
        has_entry_point = (ROOT / "spark_apps" / f"{parser.prog}.py").exists()
        parts += [f"### {parser.prog}\n", "" if has_entry_point else "Only as `--then` of another phase.\n"]
        parts += [table(("option", "default", "meaning"), _arguments(parser))]
    return "\n".join(parts)


def adapters() -> dict[str, ast.ClassDef]:
    """The classes of the Airflow side that document a parameter, or inherit one, by name."""
    files = (file for folder in ADAPTERS for file in sorted((PACKAGE / folder).glob("*.py")))
    nodes = (node for file in files for node in ast.parse(file.read_text()).body)
    classes = {node.name: node for node in nodes if isinstance(node, ast.ClassDef)}

    def documented(node: ast.ClassDef) -> bool:
        return bool(parameters(node)) or any(documented(classes[base]) for base in _bases(node) if base in classes)

    return {name: node for name, node in classes.items() if documented(node)}


def _bases(node: ast.ClassDef) -> list[str]:
    return [base.id for base in node.bases if isinstance(base, ast.Name)]


def parameters(node: ast.ClassDef) -> dict[str, str]:
    """What ``:param name: text`` says in the docstring of a class."""
    said = re.split(r":param (\w+):", ast.get_docstring(node) or "")[1:]
    # A paragraph after the parameters belongs to none of them.
    return {name: one_line(text.split("\n\n")[0]) for name, text in zip(said[::2], said[1::2], strict=True)}


def _parameters(node: ast.ClassDef) -> Iterator[Row]:
    defaults = _defaults(node)
    for name, text in parameters(node).items():
        yield f"`{name}`", defaults.get(name, ""), text


def _defaults(node: ast.ClassDef) -> dict[str, str]:
    for made in node.body:
        if isinstance(made, ast.FunctionDef) and made.name == "__init__":
            a = made.args
            named = [*zip(reversed(a.args), reversed(a.defaults), strict=False)]
            named += [(arg, value) for arg, value in zip(a.kwonlyargs, a.kw_defaults, strict=True) if value is not None]
            known, written = _constants(), {arg.arg: ast.unparse(value) for arg, value in named}
            return {name: f"`{(known | NAMED).get(value, value)}`" for name, value in written.items()}
    assigned = (made for made in node.body if isinstance(made, ast.AnnAssign))
    return {ast.unparse(made.target): f"`{ast.unparse(made.value)}`" for made in assigned if made.value is not None}


def _constants() -> dict[str, str]:
    """The constants of core that are defaults of parameters, such as ``ROUND_BYTES``, as they are written there."""
    nodes = (node for module in (bound, max_lag, round_size) for node in ast.parse(inspect.getsource(module)).body)
    return {ast.unparse(node.targets[0]): ast.unparse(node.value) for node in nodes if isinstance(node, ast.Assign)}


def _spec() -> Iterator[Row]:
    meanings = parameters(adapters()["BackfillTaskGroup"])
    for field in fields(BackfillSpec):
        yield f"`{field.name}`", _default(field), meanings[field.name].removesuffix(" (templated)")


def _topic() -> Iterator[Row]:
    said = _attributes(topic_spec.TopicSpec) | _attributes(decoding.Decoding)
    defaults = {field.name: _default(field) for field in fields(topic_spec.TopicSpec)}
    defaults |= {name: f"`{value}`" for name, value in decoding.Decoding().to_json().items()}
    for name in topic_spec.NAMES:
        yield f"`{name}`", defaults[name], said["dead_letters" if name == "undecodable" else name]


def _default(field: Any) -> str:
    default = field.default.value if isinstance(field.default, Enum) else field.default
    return f"`{default!r}`" if isinstance(default, str) else ""


def _attributes(kind: type) -> dict[str, str]:
    """The text below each field of a class."""
    (node,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(node, ast.ClassDef)
    said = {}
    for field, text in zip(node.body, node.body[1:], strict=False):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                said[name] = one_line(words)
    return said


def _commands(parser: argparse.ArgumentParser) -> str:
    (commands,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    parts = []
    for name, command in commands.choices.items():
        parts += [f"### `{parser.prog} {name}`\n", f"{command.description}.\n"]
        parts += [table(("argument", "default", "meaning"), _arguments(command))]
    return "\n".join(parts)


def _arguments(parser: argparse.ArgumentParser) -> Iterator[Row]:
    for action in parser._actions:
        if not isinstance(action, argparse._HelpAction):
            name = ", ".join(action.option_strings) or (action.metavar or action.dest)
            unset = action.default is None or action.default is False or action.default == []
            usual = "required" if action.required else "" if unset else f"`{action.default}`"
            choices = f" ({', '.join(action.choices)})" if action.choices else ""
            yield f"`{name}`", usual, f"{one_line(action.help)}{choices}"


# What the command line prints


def documents() -> str:
    """The JSON documents of the command line, from their schemas."""
    parts = [
        "# JSON of the command line\n",
        "With `--json`, each command prints one document. The schemas are in `docs/schema` of the repository. Later "
        "versions may add fields; those that are listed keep their meaning until a version deprecates them.\n",
    ]
    for file in sorted((HERE / "schema").glob("*.json")):
        parts += _document(file.stem, json.loads(file.read_text()), "##")
    return "\n".join(parts)


def _document(name: str, schema: dict[str, Any], head: str) -> Iterator[str]:
    yield f"{head} `{name}`\n"
    yield f"{schema['description']}\n"
    if "properties" not in schema:
        return
    fields = schema["properties"].items()
    yield table(("field", "type", "meaning"), ((f"`{n}`", _type(one), one["description"]) for n, one in fields))
    for inner, one in fields:
        deeper = one.get("items", one)
        if "properties" in deeper:
            yield from _document(f"{name}.{inner}", deeper, "###")


def _type(schema: dict[str, Any]) -> str:
    kinds = schema.get("type", schema.get("enum", ""))
    return " or ".join(kinds) if isinstance(kinds, list) else kinds


def write() -> None:
    (HERE / "command_line_json.md").write_text(documents())
    (HERE / "errors.md").write_text(errors())
    (HERE / "configuration.md").write_text(configuration())


def setup(app: Any) -> None:
    app.connect("builder-inited", lambda app: write())


if __name__ == "__main__":
    write()
