"""The session of a benchmark, and a source as it was."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from airflow_backfill.spark.session.settings import session_confs, sizes
from environment import quick


def session() -> SparkSession:
    builder = SparkSession.builder.master("local[2]").appName("bench")
    confs = {
        **session_confs(),
        **sizes(cores=2),
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraClassPath": os.pathsep.join(quick.jars()),
        "spark.driver.memory": "6g",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
    }
    for name, value in confs.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


@contextmanager
def hidden_after(spark: SparkSession, source: str, epoch: int) -> Iterator[None]:
    """The source as if ``epoch`` was its newest version."""
    log = Path(source) / "_delta_log"
    hidden = Path(source).parent / "hidden"
    hidden.mkdir(exist_ok=True)
    later = [p for p in log.iterdir() if p.name[:20].isdigit() and int(p.name[:20]) > epoch]
    for path in later:
        path.rename(hidden / path.name)
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    try:
        yield
    finally:
        for path in later:
            (hidden / path.name).rename(path)
        spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
