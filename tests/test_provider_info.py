"""The provider is one: its info is what Airflow's schema wants, and everything that it names is there."""

from __future__ import annotations

import ast
import json
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

import jsonschema
import pytest

from tests.airflow.home import HOME  # before anything imports Airflow

import airflow  # isort: skip
from airflow.providers_manager import ProvidersManager  # isort: skip

from airflow_backfill.get_provider_info import get_provider_info

PACKAGE = Path(__file__).parents[1] / "airflow_backfill"
INFO = get_provider_info()


def named(kind: str) -> list[str]:
    return [module for part in INFO[kind] for module in part["python-modules"]]


def test_info_is_what_the_schema_wants():
    assert HOME
    schema = json.loads((Path(airflow.__file__).parent / "provider_info.schema.json").read_text())
    jsonschema.validate(INFO, schema)
    unknown = set(INFO) - set(schema["properties"])
    assert unknown == set()


@pytest.mark.parametrize("module", [m for kind in ("operators", "sensors", "triggers", "hooks") for m in named(kind)])
def test_modules_are_there(module):
    import_module(module)


@pytest.mark.parametrize("path", [*INFO["extra-links"], *(t["hook-class-name"] for t in INFO["connection-types"])])
def test_classes_are_there(path):
    module, _, name = path.rpartition(".")
    assert isinstance(getattr(import_module(module), name), type)


@pytest.mark.parametrize("kind", ["operators", "sensors"])
def test_every_public_task_is_named(kind):
    suffix = kind.removesuffix("s").capitalize()
    abstract = {"application", "phase", "rounds", "order", "build"}
    made = {
        f"airflow_backfill.{kind}.{file.stem}"
        for file in (PACKAGE / kind).glob("*.py")
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.ClassDef) and node.name.endswith(suffix) and file.stem not in abstract
    }
    assert made == set(named(kind))


def test_airflow_finds_it():
    (entry,) = [e for e in entry_points(group="apache_airflow_provider") if e.value.startswith("airflow_backfill")]
    assert entry.load()() == INFO
    manager = ProvidersManager()
    assert manager.providers["airflow-backfill"].data["name"] == INFO["name"]
    assert manager.hooks["table_backfill"].hook_name == "Table backfill"
    assert set(INFO["extra-links"]) <= set(manager.extra_links_class_names)
