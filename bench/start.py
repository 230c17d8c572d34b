"""Starts Spark applications, and measures what a start takes: process, Java, session, first job."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from airflow_backfill.spark.session.settings import session_confs
from environment import quick

ROOT = Path(__file__).parents[1]
SUBMIT = Path(sys.executable).with_name("spark-submit")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}


def submit(script: str, *arguments: str, java: str | None = None) -> list[str]:
    """The command that starts an application, with the memory of the examples and the options of
    ``environment/quick.py`` for Java, or others.
    """
    confs = session_confs() | quick.confs() | {"spark.ui.enabled": "false", "spark.log.level": "ERROR"}
    if java is not None:
        confs["spark.driver.extraJavaOptions"] = java
    settings = [word for name, value in confs.items() for word in ("--conf", f"{name}={value}")]
    return [str(SUBMIT), "--master", "local[2]", "--driver-memory", "2g", *settings, script, *arguments]


def seconds_to_start(times: int, *, quickly: bool) -> float:
    """Median of several starts."""
    took = []
    with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
        script.write("from pyspark.sql import SparkSession\nSparkSession.builder.getOrCreate().range(1).count()\n")
        script.flush()
        for _ in range(times):
            begun = time.perf_counter()
            command = submit(script.name, java=None if quickly else "")
            subprocess.run(command, env=ENVIRONMENT, check=True, capture_output=True)
            took.append(time.perf_counter() - begun)
    return median(took)
