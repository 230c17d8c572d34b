"""Where the examples find their tables and Spark; a deployment of your own has its own answers."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

LAKE = os.environ.get("TABLE_BACKFILL_DEMO", "/tables")
"""The folder, or the URI, under which all tables of the examples are."""


def spark(*, brief: bool = True) -> dict[str, Any]:
    """Arguments for spark-submit: none where Spark is configured already, else a small Spark on this machine.

    ``brief`` says that it is for seconds of work: then compiling well costs more than it brings, and loading classes is
    half of it.
    """
    if "SPARK_CONF_DIR" in os.environ:
        return {}
    jars = Path(os.environ.get("TABLE_BACKFILL_JARS", Path(sys.prefix) / "jars"))
    java = "-XX:+UseSerialGC"
    if brief:
        java += " -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"
    archive = Path(sys.prefix) / "spark.jsa"
    if archive.exists():
        java += f" -XX:SharedArchiveFile={archive}"
    return {
        "driver_class_path": os.pathsep.join(str(jar) for jar in sorted(jars.glob("*.jar"))),
        "driver_memory": "2g",
        "conf": {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.log.level": "WARN",
            "spark.driver.extraJavaOptions": java,
        },
    }
