from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from demo import tpch
from tests.made_once import made_once
from tests.spark import conftest as shared

REPO = Path(__file__).parents[2]

spark = shared.spark


@pytest.fixture(scope="session")
def raw(tmp_path_factory) -> Path:
    """TPC-H at scale 0.001: 1,500 orders, about 6,000 lineitems."""
    directory = tmp_path_factory.mktemp("tpch") / "raw"
    tpch.make(directory, 0.001)
    return directory


@pytest.fixture(scope="session")
def loaded(raw, tmp_path_factory) -> Path:
    """The Delta tables as the command makes them, in a session of its own; read only. All workers share them."""

    def load(tables: Path) -> None:
        subprocess.run([sys.executable, "-m", "demo.load", raw, tables], cwd=REPO, check=True)

    return made_once(tmp_path_factory, "loaded", load)


@pytest.fixture
def tables(loaded, tmp_path) -> Path:
    """The tables, to be written."""
    return Path(shutil.copytree(loaded, tmp_path / "tables"))
