"""The jars that Spark needs beside its own, as Maven coordinates, and which versions fit together.

Delta publishes one jar for each minor version of Spark. The build uses parts inside of Delta, so other versions are
refused before anything is read.
"""

from __future__ import annotations

import re

from airflow_backfill.core.errors import SparkIncomplete

SPARKS = ("4.0", "4.1", "4.2")
"""The minor versions of Spark that are supported."""
DELTA = "4.4.0"
"""The version of Delta that is downloaded. Other patch versions of the same minor version are accepted."""

BROUGHT_BY_SPARK = (
    *("org.apache.hadoop:*", "org.apache.parquet:*", "com.fasterxml.jackson*:*"),
    *("org.slf4j:*", "org.apache.logging.log4j:*", "org.xerial.snappy:*", "com.github.luben:*", "org.lz4:*"),
)
"""What Delta and Kafka's source name although Spark has it: 50 of 87 MB."""

_CONNECTORS = {"s3a": "hadoop-aws", "abfs": "hadoop-azure", "abfss": "hadoop-azure", "gs": "hadoop-gcp"}
"""By scheme, Hadoop's own jar for a store. That for ``gs`` is there from Hadoop 3.5 on."""

_DELTA_FILE = re.compile(r"delta-spark_(?:(\d+\.\d+)_)?2\.13-[\d.]+\.jar$")


def coordinates(spark: str, *, kafka: bool = False) -> tuple[str, ...]:
    """The jars for this version of Spark (``4.2.0``): Delta, and with ``kafka`` Spark's reader of topics."""
    delta = f"io.delta:delta-spark_{_minor(spark)}_2.13:{DELTA}"
    return (delta, f"org.apache.spark:spark-sql-kafka-0-10_2.13:{spark}") if kafka else (delta,)


def connector(scheme: str, hadoop: str) -> str | None:
    """The jar that brings the file system of a scheme to this version of Hadoop (``3.5.0``); None if it needs none, or
    if this Hadoop has none of its own.
    """
    if scheme not in _CONNECTORS or (scheme == "gs" and tuple(map(int, _minor(hadoop).split("."))) < (3, 5)):
        return None
    return f"org.apache.hadoop:{_CONNECTORS[scheme]}:{hadoop}"


def check(spark: str, delta: str | None, file: str) -> None:
    """Raise SparkIncomplete unless Spark is supported, and Delta there and made for it.

    ``delta`` is the version of Delta on the class path, None if there is none; ``file`` the jar that holds it.
    """
    if _minor(spark) not in SPARKS:
        raise SparkIncomplete(
            f"Spark {spark} is not supported; use {', '.join(SPARKS)}, with Delta {DELTA}", spark=spark
        )
    needed = coordinates(spark)[0]
    way_out = f"set spark.jars.packages to {needed}, or bake that jar into the image, and remove others of Delta"
    if delta is None:
        raise SparkIncomplete(
            f"Delta is not on the class path of Spark {spark}, so no table can be read; {way_out}", needed=needed
        )
    named = _DELTA_FILE.search(file)
    made_for = (named[1] or "4.0") if named else _minor(spark)
    if _minor(delta) != _minor(DELTA) or made_for != _minor(spark):
        raise SparkIncomplete(
            f"{file} is Delta {delta} for Spark {made_for}, and this is Spark {spark}, which needs Delta {DELTA} made "
            f"for it: others lack parts that a build uses; {way_out}",
            needed=needed,
            found=file,
        )


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])
