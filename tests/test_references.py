"""The references that are generated for the documentation hold every error and every option."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from airflow_backfill.cli import parser as command_line
from airflow_backfill.core import errors
from airflow_backfill.core.errors import BackfillError, InvalidSpec
from airflow_backfill.core.kafka.topic_spec import TopicSpec
from airflow_backfill.core.model.spec import BackfillSpec
from airflow_backfill.spark.run import landing_app, phases
from airflow_backfill.spark.service import application as service
from tests.test_documented import CLASSES, taken

SCRIPT = Path(__file__).parents[1] / "docs" / "generate.py"
SPEC = importlib.util.spec_from_file_location("generate", SCRIPT)
assert SPEC is not None and SPEC.loader is not None
generate = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(generate)

ERRORS = generate.errors()
CONFIGURATION = generate.configuration()
SECTIONS = dict(re.findall(r"^###? (.+)\n((?:(?!##).*\n)*)", CONFIGURATION, re.MULTILINE))
KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, BackfillError)]
HELP = re.compile(r"^  (--?[a-z-]+|[a-z_]+)\b", re.MULTILINE)


def listed(section: str) -> list[str]:
    return re.findall(r"^\| `([^`]+)` \|", SECTIONS[section], re.MULTILINE)


def known(refusal: InvalidSpec) -> list[str]:
    found = re.search(r"known: (.*)\)", refusal.message)
    assert found is not None
    return found[1].split(", ")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind is not BackfillError], ids=lambda kind: kind.code)
def test_every_error_is_there_with_its_kind_and_its_way_out(kind: type[BackfillError]) -> None:
    found = re.search(rf"^## {kind.code}\n\n(Final|Retryable)\. \S.*\n\n\*\*What to do:\*\* \S", ERRORS, re.MULTILINE)
    assert found is not None
    assert (found[1] == "Retryable") is kind.retry


def test_every_option_of_the_spec_is_there() -> None:
    with pytest.raises(InvalidSpec) as refused:
        BackfillSpec.parse({"no such option": 1})
    assert listed("The spec") == known(refused.value)
    with pytest.raises(InvalidSpec) as refused:
        TopicSpec.parse({"no such option": 1})
    assert listed("`topic`") == known(refused.value)


OURS = [name for name in CLASSES if name.endswith(("Operator", "Sensor", "Group", "Hook")) and taken(CLASSES[name])]


@pytest.mark.parametrize("name", OURS)
def test_every_parameter_of_a_class_is_there(name: str) -> None:
    section = SECTIONS[name]
    bases = re.findall(rf"^{generate.INHERITED} `(\w+)`", section, re.MULTILINE)
    assert taken(CLASSES[name]) <= set(listed(name)).union(*(listed(base) for base in bases))


@pytest.mark.parametrize("command", command_line.HELP)
def test_every_argument_of_a_command_is_there(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command_line.parser().parse_args([command, "--help"])
    assert set(HELP.findall(capsys.readouterr().out)) - {"-h"} == set(listed(f"`table-backfill {command}`"))


@pytest.mark.parametrize(
    "parser", [*map(phases.parser, phases.APPLICATIONS), service.parser(), landing_app.parser()], ids=lambda p: p.prog
)
def test_every_argument_of_an_application_is_there(parser) -> None:
    assert set(HELP.findall(parser.format_help())) - {"-h"} == set(listed(parser.prog))


def test_a_default_is_a_value_and_no_name_of_the_code() -> None:
    assert re.findall(r"^\| `\w+` \| (`[A-Z_]{2,}`|`<.*?>`) \|", CONFIGURATION, re.MULTILINE) == []


def test_every_option_has_a_meaning() -> None:
    empty = re.findall(r"^\| `.*\|\s+\|$", CONFIGURATION, re.MULTILINE)
    assert empty == []
