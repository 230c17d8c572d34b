"""What the package imports is what it asks for: a user's environment has nothing else."""

from __future__ import annotations

import ast
import sys
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.test_walls import imports

PACKAGE = Path(__file__).parents[1] / "airflow_backfill"
ON_SPARK = ("spark", "spark_apps")
OPTIONAL = {
    "attr": "notifications/open_lineage.py",
    "boto3": "ledger/aws_profile.py",
    "botocore": "ledger/aws_profile.py hooks/aws_connection.py",
    "openlineage": "notifications/open_lineage.py",
}
"""What is imported only where the user has it, and where."""


def needed(name: str, extras: frozenset[str] = frozenset(), seen: set[tuple[str, str]] | None = None) -> set[str]:
    """The distributions that are installed with this one."""
    seen = set() if seen is None else seen
    for extra in ("", *extras):
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        try:
            asked = [Requirement(text) for text in requires(name) or ()]
        except PackageNotFoundError:  # of another Python or system
            continue
        for one in asked:
            if one.marker is None or one.marker.evaluate({"extra": extra}):
                needed(canonicalize_name(one.name), frozenset(one.extras), seen)
    return {found for found, _ in seen}


def foreign(text: str) -> set[str]:
    """Top-level names of the projects that a module imports."""
    names = {name.partition(".")[0] for _, name in imports(ast.parse(text), "airflow_backfill")}
    return names - {*sys.stdlib_module_names, "airflow_backfill"}


@pytest.mark.parametrize("extra", ["", "spark"])
def test_every_import_is_asked_for(extra: str) -> None:
    there, given = needed("airflow-backfill", frozenset({extra} - {""})), packages_distributions()
    missing = {}
    for file in PACKAGE.rglob("*.py"):
        place = str(file.relative_to(PACKAGE))
        if not extra and place.startswith(ON_SPARK):
            continue
        for name in foreign(file.read_text()):
            by = {canonicalize_name(one) for one in given.get(name, ())}
            if not by & there and place not in OPTIONAL.get(name, ""):
                missing.setdefault(name, place)
    assert missing == {}


def test_an_import_that_nobody_asks_for_is_seen() -> None:
    text = "import os, hypothesis.strategies\nfrom . import two\nfrom moto.server import x\n"
    assert foreign(text) == {"hypothesis", "moto"}
    assert {"apache-airflow-core", "httpx", "pydantic"} <= needed("airflow-backfill") and not {
        "hypothesis",
        "moto",
        "pyspark",
    } & needed("airflow-backfill")
