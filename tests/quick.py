"""What ``make quick`` runs: every test that needs neither a JVM nor a server, and takes seconds at most.

A new test falls into the right group by itself: by its folder, by its fixtures, and by whether it runs the package with
a deliberate bug. Where none of them tells, a marker does (``jvm``, ``slow``). Java is a stub that notes each call; a
test that starts Java fails, and the message names the marker.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.mutation import Edit

TESTS = Path(__file__).parent
FOLDERS = ("airflow", "kafka", "simulation", "spark", "system")
"""Everything in them needs Spark, a broker or a running Airflow; or it runs whole builds for minutes."""
FIXTURES = {"broker", "jars", "loaded", "raw", "spark"}
MARKERS = ("airflow", "jvm", "slow", "soak", "spark")

HOME = Path(tempfile.mkdtemp(prefix="no-java-"))
CALLS = HOME / "calls"
EXAMPLES = 25
"""Of each random test; ``make test`` has four times as many."""
STUB = f"""#!/bin/sh
echo "make quick has no Java" >&2
echo "java $*" >>'{CALLS}'
exit 97
"""


def is_quick(item: pytest.Function) -> bool:
    spoiled = any(isinstance(value, Edit) for value in getattr(getattr(item, "callspec", None), "params", {}).values())
    marked = any(item.get_closest_marker(name) for name in MARKERS)
    return not (spoiled or marked or FIXTURES & set(item.fixturenames))


def pytest_configure() -> None:
    settings.register_profile("quick", max_examples=EXAMPLES)
    settings.load_profile("quick")
    stub = HOME / "bin" / "java"
    stub.parent.mkdir()
    stub.write_text(STUB)
    stub.chmod(0o755)
    os.environ["JAVA_HOME"] = str(HOME)
    os.environ["PATH"] = f"{stub.parent}{os.pathsep}{os.environ['PATH']}"


def pytest_unconfigure() -> None:
    shutil.rmtree(HOME, ignore_errors=True)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    # None: whatever else decides.
    return True if collection_path in [TESTS / folder for folder in FOLDERS] else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Function]) -> None:
    others = [item for item in items if not is_quick(item)]
    items[:] = [item for item in items if is_quick(item)]
    config.hook.pytest_deselected(items=others)


@pytest.fixture(autouse=True)
def no_java() -> Iterator[None]:
    yield
    if CALLS.exists():
        calls = CALLS.read_text()
        CALLS.unlink()
        pytest.fail(f"make quick starts no Java: mark this test with `jvm`, or use a fixture that says so\n{calls}")
