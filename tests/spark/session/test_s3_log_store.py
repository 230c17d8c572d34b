"""The log store for S3 compiles in each Java that starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from airflow_backfill.ledger.hadoop_store import S3_LOG_STORE
from airflow_backfill.spark.session.s3_log_store import SOURCE

STARTS = 8
"""Java names the methods of a class in another order each time, and Janino may stumble over one of two orders."""


@pytest.mark.soak
def test_it_compiles_at_each_start(tmp_path: Path) -> None:
    source = tmp_path / "S3LogStore.java"
    source.write_text(SOURCE)
    folders = (Path(pyspark.__file__).parent / "jars", Path(sys.prefix, "jars"), Path(sys.prefix, "s3a"))
    jars = os.pathsep.join(f"{folder}/*" for folder in folders)
    compiler = ["java", "-Xshare:off", "-cp", jars, "org.codehaus.janino.SimpleCompiler", str(source), S3_LOG_STORE]
    for _ in range(STARTS):
        told = subprocess.run(compiler, capture_output=True, text=True, timeout=120, check=False).stderr
        # Janino's command compiles the class, and then wants to run it.
        assert f"NoSuchMethodException: {S3_LOG_STORE}.main" in told.splitlines()[0], told
