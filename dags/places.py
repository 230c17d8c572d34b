"""The tables and the Spark settings of the examples. Replace them in your deployment."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

LAKE = os.environ.get("TABLE_BACKFILL_DEMO", "/tables")
"""The folder or URI with all tables of the examples."""
CODE = f"{LAKE}/code"
"""Where entry points and zip of this package lie for clusters that read them from the store."""


def spark(*, brief: bool = True) -> dict[str, Any]:
    """Arguments for spark-submit: none if Spark is already configured, else a small local Spark.

    ``brief`` is for applications that work for seconds: then full JIT compilation costs more than it saves.
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
