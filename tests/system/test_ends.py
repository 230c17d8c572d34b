"""A driver whose libraries leave threads behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_backfill.spark_home import ENDS
from environment import quick
from tests.system.applications import submitted

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PROGRAM = """
from pyspark.sql import SparkSession

SparkSession.builder.getOrCreate()._jvm.java.util.Timer()  # its thread is no daemon, as those of ABFS
print("done", flush=True)
"""


def test_a_driver_ends_with_its_application(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    confs = {**quick.confs(), **quick.INTERPRETED, "spark.ui.enabled": "false", **ENDS}
    with submitted(program, (), ("--master", "local[1]"), confs, {}) as process:
        try:
            output, _ = process.communicate(timeout=120)
        finally:
            process.kill()
    assert process.returncode == 0 and "done" in output, output
