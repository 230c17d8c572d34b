"""A Spark for small work on this machine: the locked jars, and a Java that starts soon rather than runs fast."""

from __future__ import annotations

import os
import sys
from importlib.metadata import version
from pathlib import Path

OPTIONS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC"
"""Compile quickly, and keep what was compiled. Right for seconds of work, wrong for minutes."""

ARCHIVE = Path(sys.prefix) / "spark.jsa"
"""The classes that Spark and Delta load (environment/class_archive.sh)."""

INTERPRETED = {"spark.sql.codegen.factoryMode": "NO_CODEGEN", "spark.sql.codegen.wholeStage": "false"}
"""Interpret expressions. Right for a few rows: to generate and compile code costs a quarter of all CPU then."""


def jars() -> list[str]:
    """The jars that Spark needs for Delta."""
    folder = Path(os.environ.get("TABLE_BACKFILL_JARS") or Path(sys.prefix) / "jars")
    found = sorted(str(jar) for jar in folder.glob("*.jar"))
    if not found:
        raise FileNotFoundError(f"no jars in {folder}: run make setup, or set TABLE_BACKFILL_JARS")
    return found


def confs(options: str = OPTIONS) -> dict[str, str]:
    """Settings of a local Spark, which have to be there before its Java starts."""
    managers = "streaming" if version("pyspark").startswith("4.0.") else "streaming.checkpointing"
    return {
        "spark.driver.extraClassPath": os.pathsep.join(jars()),
        "spark.driver.extraJavaOptions": f"{options} -XX:SharedArchiveFile={ARCHIVE}" if ARCHIVE.exists() else options,
        # Delta writes a checksum after each commit. By default that renames with four calls of `readlink` and one of
        # `chmod`, each in a process of its own.
        "spark.sql.streaming.checkpointFileManagerClass": (
            f"org.apache.spark.sql.execution.{managers}.FileSystemBasedCheckpointFileManager"
        ),
        # The same for commits: Delta's default for `file:` calls `readlink` eight times and `chmod` twice for each.
        "spark.delta.logStore.file.impl": "io.delta.storage.LocalLogStore",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.showConsoleProgress": "false",
    }
