"""The walls between the layers: who may import whom, how long a file may be, which Python must suffice."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "airflow_backfill"
SPARK_APPS = ROOT / "spark_apps"

# What travels to Spark drivers, and what runs inside Airflow.
TRAVELS = ("core", "ledger", "spark", "spark_apps")
ADAPTERS = (
    "assets",
    "builds",
    "cli",
    "fleet",
    "hooks",
    "links",
    "operators",
    "plugin",
    "sensors",
    "task_groups",
    "notifications",
    "testing",
    "triggers",
    "watching",
)
SPARK_ONLY = frozenset({"delta", "py4j", "pyspark"})
ON_AIRFLOW_ONLY = frozenset({"airflow"})


def layer(path: Path) -> str:
    """The folder of the package that a file belongs to; "" for the modules beside the folders."""
    if path.is_relative_to(SPARK_APPS):
        return "spark_apps"
    return next(iter(path.relative_to(PACKAGE).parent.parts), "")


def sources(*layers: str) -> list[Path]:
    files = [*PACKAGE.rglob("*.py"), *SPARK_APPS.rglob("*.py")]
    return sorted(file for file in files if not layers or layer(file) in layers)


def imports(tree: ast.AST, package: str) -> Iterator[tuple[int, str]]:
    """Every imported module with its line: at any depth, relative ones resolved, by name in a string too."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, name.name) for name in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                above = package.split(".")[: len(package.split(".")) - level + 1] if level else []
                base = ".".join([*above, *([module] if module else [])])
                yield node.lineno, base
                yield from ((node.lineno, f"{base}.{name.name}") for name in names)
            case ast.Call(
                func=ast.Name(id="__import__") | ast.Attribute(attr="import_module") | ast.Name(id="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield node.lineno, name


def imported(file: Path) -> list[tuple[int, str]]:
    package = ".".join(file.relative_to(ROOT).parent.parts)
    return list(imports(ast.parse(file.read_text()), package))


def breaches(files: list[Path], forbidden: frozenset[str]) -> list[str]:
    return [
        f"{file.relative_to(ROOT)}:{line} imports {name}"
        for file in files
        for line, name in imported(file)
        if name.split(".")[0] in forbidden
    ]


def modules(*layers: str) -> list[str]:
    names = [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in sources(*layers)]
    return [name.removesuffix(".__init__") for name in names if not name.endswith("__main__")]


def import_all(names: list[str], home: Path, *, without: frozenset[str]) -> subprocess.CompletedProcess[str]:
    """Import the modules in a fresh interpreter without ``without``; Airflow writes to ``home``."""
    hidden = "".join(f"sys.modules[{name!r}] = None\n" for name in sorted(without))
    wanted = "".join(f"import {name}\n" for name in names)
    program = f"import sys\n{hidden}{wanted}"
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "AIRFLOW_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_folder_is_behind_a_wall():
    assert {layer(file) for file in sources()} <= {"", *TRAVELS, *ADAPTERS}


def test_core_imports_the_standard_library_and_itself():
    foreign = [
        f"{file.relative_to(ROOT)}:{line} imports {name}"
        for file in sources("core")
        for line, name in imported(file)
        if name.split(".")[0] not in sys.stdlib_module_names and not f"{name}.".startswith("airflow_backfill.core.")
    ]
    assert foreign == []


def test_what_travels_to_spark_never_imports_airflow():
    assert breaches(sources(*TRAVELS), ON_AIRFLOW_ONLY) == []


def test_adapters_never_import_pyspark():
    assert breaches(sources("", *ADAPTERS), SPARK_ONLY) == []


def test_core_and_ledger_load_without_airflow_and_pyspark(tmp_path):
    done = import_all(modules("core", "ledger"), tmp_path, without=ON_AIRFLOW_ONLY | SPARK_ONLY)
    assert done.returncode == 0, done.stderr


def test_spark_side_loads_without_airflow(tmp_path):
    done = import_all(modules("spark", "spark_apps"), tmp_path, without=ON_AIRFLOW_ONLY)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_adapters_load_without_pyspark(tmp_path):
    done = import_all(modules("", *ADAPTERS), tmp_path, without=SPARK_ONLY)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_what_travels_to_spark_runs_on_python_3_10():
    files = [str(file) for file in sources(*TRAVELS)]
    vermin = str(Path(sys.executable).with_name("vermin"))
    command = [vermin, "--target=3.10-", "--violations", "--no-tips", *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_what_stands_beside_the_package_loads_with_it(tmp_path):
    """Benchmarks, the demo and the set-up are run now and then only: a name that has moved shows here."""
    folders = ("bench", "demo", "environment")
    files = [file.relative_to(ROOT) for folder in folders for file in (ROOT / folder).rglob("*.py")]
    done = import_all([".".join(file.with_suffix("").parts) for file in files], tmp_path, without=frozenset())
    assert done.returncode == 0, done.stderr


FLOORS = {
    "": (
        *("core", "assets", "ledger", "own_folder", "spark_home", "notifications", "builds", "failure", "links"),
        "hooks",
        *("watching", "triggers", "spark", "operators", "sensors", "task_groups", "fleet", "plugin", "testing", "cli"),
    ),
    "core": (
        *("errors", "values", "service", "kafka", "splits", "model", "source", "delta", "target_table", "state"),
        *("gates", "strategies", "reports", "attempts"),
    ),
    "spark": (
        *("delta_internals", "session", "transform", "digest", "source", "target_table", "delta"),
        *("open_source", "verify", "kafka", "preflight", "strategies", "explain", "run", "service"),
    ),
}
"""The rooms of a folder, the lowest first: each imports those below it only."""


def test_sensors_and_operators_do_not_know_each_other():
    """What both need is below them. An operator that defers names its trigger, as Airflow wants it."""
    strangers = [("sensors", "operators"), ("operators", "sensors"), ("triggers", "operators"), ("triggers", "sensors")]
    wrong = [
        f"{file.relative_to(ROOT)}:{line} imports {name}"
        for here, there in strangers
        for file in sources(here)
        for line, name in imported(file)
        if name.startswith(f"airflow_backfill.{there}")
    ]
    assert wrong == []


def test_operators_and_sensors_take_nothing_from_triggers_but_what_they_defer_to():
    """An operator names its trigger to Airflow. What it shares with the trigger is below both."""
    taken = [
        f"{file.relative_to(ROOT)}:{line} imports {name}"
        for file in sources("operators", "sensors")
        for line, name in imported(file)
        if name.startswith("airflow_backfill.triggers.") and name.count(".") == 3
    ]
    assert taken
    assert [name for name in taken if not name.endswith("Trigger")] == []


FORMATS = {
    "airflow_backfill.core.delta": {
        "ledger/delta_source.py",
        "spark/delta/changes.py",
        "core/target_table/foreign_commits.py",
    },
    "airflow_backfill.spark.delta": {"spark/open_source.py"},
    "airflow_backfill.ledger.delta_source": {"ledger/open_source.py"},
}
"""What knows the format of the source, and who may import it. The target is a Delta table by itself."""


@pytest.mark.parametrize("known", FORMATS)
def test_the_format_of_the_source_is_known_in_one_place(known):
    who = {
        str(file.relative_to(PACKAGE)): line
        for file in sources()
        if not str(file.relative_to(ROOT)).startswith(known.replace(".", "/"))
        for line, name in imported(file)
        if f"{name}.".startswith(f"{known}.")
    }
    assert who.keys() == FORMATS[known], who


@pytest.mark.parametrize("folder", FLOORS)
def test_no_room_imports_one_above_it(folder):
    base, floors = PACKAGE / folder, FLOORS[folder]
    package = ".".join(base.relative_to(ROOT).parts)
    wrong = []
    for file in base.rglob("*.py"):
        here, *_ = file.relative_to(base).with_suffix("").parts
        for line, name in imported(file):
            there = name.removeprefix(f"{package}.").partition(".")[0] if name.startswith(f"{package}.") else None
            if here in floors and there in floors and floors.index(there) > floors.index(here):
                wrong.append(f"{file.relative_to(ROOT)}:{line} imports {name}")
    assert wrong == []


@pytest.mark.parametrize("folder", FLOORS)
def test_every_room_has_a_floor(folder):
    base = PACKAGE / folder
    rooms = {file.relative_to(base).with_suffix("").parts[0] for file in base.rglob("*.py")}
    assert rooms - {"__init__", "get_provider_info"} == set(FLOORS[folder])


def test_no_files_import_each_other_in_a_circle():
    """Not even for a type: of two files that know each other, neither can be read first."""
    names = {".".join(file.relative_to(ROOT).with_suffix("").parts): file for file in sources()}
    graph = {name: {there for _, there in imported(file) if there in names} for name, file in names.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as circle:
        pytest.fail(" -> ".join(circle.args[1]))


def test_no_file_is_longer_than_400_lines():
    lengths = {str(file.relative_to(ROOT)): len(file.read_text().splitlines()) for file in sources()}
    assert {file: length for file, length in lengths.items() if length > 400} == {}


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("import a.b, c", {"a.b", "c"}),
        ("from a import b", {"a", "a.b"}),
        ("def f():\n    import a", {"a"}),
        ("from . import a", {"airflow_backfill.core", "airflow_backfill.core.a"}),
        ("from ..spark import a", {"airflow_backfill.spark", "airflow_backfill.spark.a"}),
        ("import importlib\nimportlib.import_module('a.b')", {"importlib", "a.b"}),
        ("__import__('a')", {"a"}),
    ],
)
def test_imports_are_found_wherever_they_hide(code, names):
    assert {name for _, name in imports(ast.parse(code), "airflow_backfill.core")} == names
