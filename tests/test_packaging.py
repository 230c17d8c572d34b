"""The distributions that a release publishes: what they hold, and that a wheel works where nothing else is installed.

Everything is built and installed without network.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

import airflow_backfill

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
NAME = f"airflow_backfill-{airflow_backfill.__version__}"
UV = Path(sys.executable).with_name("uv")


def run(*command: object, **options: object) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the sdist and with the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("packaging")
    source = folder / "source"
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns("__pycache__", ".*", "build", "dist", "*.egg-info"))
    build = [UV, "build", "--offline", "--no-build-isolation", "--python", sys.executable]
    run(*build, "--out-dir", folder / "dist", source)
    return folder / "dist"


@pytest.fixture(scope="session")
def python(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a virtual environment that holds the wheel, and nothing else."""
    environment = tmp_path_factory.mktemp("installed")
    run(sys.executable, "-m", "venv", "--without-pip", environment)
    python = environment / "bin" / "python"
    run(UV, "pip", "install", "--offline", "--no-deps", "--python", python, dist / f"{NAME}-py3-none-any.whl")
    return python


def package_files() -> set[str]:
    package = ROOT / "airflow_backfill"
    apps = ROOT / "spark_apps"
    modules = {str(file.relative_to(ROOT)) for file in package.rglob("*.py")}
    return modules | {f"airflow_backfill/{file.relative_to(ROOT)}" for file in apps.rglob("*.py")}


def test_the_wheel_holds_every_module_and_nothing_else(dist: Path) -> None:
    names = set(zipfile.ZipFile(dist / f"{NAME}-py3-none-any.whl").namelist())
    held = {name for name in names if not name.startswith(f"{NAME}.dist-info/")}
    page = {str(file.relative_to(ROOT)) for file in (ROOT / "airflow_backfill/plugin/page").iterdir()}
    assert held == package_files() | page | {"airflow_backfill/py.typed"}


def test_the_wheel_says_what_it_is(dist: Path) -> None:
    wheel = zipfile.ZipFile(dist / f"{NAME}-py3-none-any.whl")
    entries = wheel.read(f"{NAME}.dist-info/entry_points.txt").decode()
    assert "provider_info = airflow_backfill.get_provider_info:get_provider_info" in entries
    assert "table-backfill = airflow_backfill.cli.main:main" in entries
    metadata = wheel.read(f"{NAME}.dist-info/METADATA").decode()
    assert "\nRequires-Python: >=3.10\n" in metadata
    assert f"{NAME}.dist-info/licenses/LICENSE" in wheel.namelist()


def test_the_sdist_is_enough_to_build_from(dist: Path) -> None:
    """The wheel was built from it; this names what would be missed first."""
    with tarfile.open(dist / f"{NAME}.tar.gz") as sdist:
        held = {name.partition("/")[2] for name in sdist.getnames()}
    modules = {name.replace("airflow_backfill/spark_apps/", "spark_apps/") for name in package_files()}
    assert held >= modules | {"LICENSE", "README.md", "pyproject.toml", "setup.cfg", "setup.py"}
    assert [name for name in held if name.startswith("tests")] == []


def test_the_core_needs_no_dependency(python: Path) -> None:
    code = """
import importlib, pkgutil, airflow_backfill.core as core
for module in pkgutil.walk_packages(core.__path__, "airflow_backfill.core."):
    importlib.import_module(module.name)
print(core.__file__)
"""
    where = run(python, "-c", code, cwd="/")
    assert Path(where.strip()).is_relative_to(python.parents[1])


def test_the_command_line_starts_without_dependencies(python: Path) -> None:
    help_ = run(python.with_name("table-backfill"), "--help", cwd="/")
    assert "status" in help_ and "recover" in help_


def test_airflow_finds_provider_operators_and_applications_in_it(python: Path, tmp_path: Path) -> None:
    """The dependencies are those of this Python; they come last, so that the package itself is the installed one."""
    code = """
import sys; sys.path.append(sys.argv[1])
from importlib.metadata import entry_points
from pathlib import Path
from airflow_backfill.operators.package import entry_points as applications
from airflow_backfill.task_groups import backfill
(ours,) = [e for e in entry_points(group="apache_airflow_provider") if e.dist.name == "airflow-backfill"]
assert ours.load()()["package-name"] == "airflow-backfill"
assert Path(applications(), "plan.py").is_file()
print(backfill.__file__, applications())
"""
    environment = {**os.environ, "AIRFLOW_HOME": str(tmp_path)}
    said = run(python, "-c", code, sysconfig.get_path("purelib"), cwd="/", env=environment)
    for where in said.split()[-2:]:
        assert Path(where).is_relative_to(python.parents[1])
