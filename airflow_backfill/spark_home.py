"""Settings that every start of an application needs, and the jars where none are named."""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from airflow_backfill.core.values.jars import BROUGHT_BY_SPARK, coordinates

log = logging.getLogger(__name__)

PACKAGES = "spark.jars.packages"
SETTINGS = ("spark.jars", PACKAGES, "spark.driver.extraClassPath")
"""Settings that name jars. Where one is set, the user has seen to Delta's, too."""

ENDS = {"spark.submit.callSystemExitOnMainExit": "true"}
"""A driver ends with its application, though a library has left threads in its Java that would go on for ever, as
Hadoop's ABFS does. Spark 4.0 ignores it.
"""

_CORE = re.compile(r"spark-core_2\.13-(\d+\.\d+\.\d+)\.jar")


def default_jars(
    conf: Mapping[str, object], *, binary: str | None = None, defaults: str | None = None, kafka: bool = False
) -> dict[str, str]:
    """Settings with which spark-submit downloads Delta's jar, and with ``kafka`` those for topics.

    Empty if ``conf`` or Spark's defaults name jars, if Delta's lies among Spark's own, or if there is no Spark on this
    machine. ``binary`` is the path of spark-submit, ``defaults`` a file to use instead of ``spark-defaults.conf``.
    """
    home = _home(binary or "spark-submit")
    if home is None or not {*conf, *_defaults(home, defaults)}.isdisjoint(SETTINGS):
        return {}
    jars = [path.name for path in (home / "jars").iterdir()]
    version = next((found[1] for found in map(_CORE.fullmatch, jars) if found), None)
    if version is None or any(name.startswith("delta-spark_") for name in jars):
        return {}
    packages = ",".join(coordinates(version, kafka=kafka))
    log.info("no jars are named, so Spark downloads %s unless it already has them", packages)
    return {PACKAGES: packages, "spark.jars.excludes": ",".join(BROUGHT_BY_SPARK)}


def _home(binary: str) -> Path | None:
    """The folder of the Spark that spark-submit starts: as Spark's own script finds it."""
    found = shutil.which(binary)
    if found is None:
        return None
    pyspark = importlib.util.find_spec("pyspark")
    installed = (pyspark.submodule_search_locations or ()) if pyspark else ()
    places = [os.environ.get("SPARK_HOME"), Path(found).resolve().parents[1], *installed]
    return next((Path(place) for place in places if place and any(Path(place).glob("jars/spark-core_*.jar"))), None)


def _defaults(home: Path, file: str | None) -> set[str]:
    """The names of the settings in Spark's defaults file."""
    folder = os.environ.get("SPARK_CONF_DIR") or home / "conf"
    path = Path(file or Path(folder, "spark-defaults.conf"))
    lines = path.read_text("utf-8", "replace").splitlines() if path.is_file() else []
    return {re.split(r"[\s=:]", line.strip(), maxsplit=1)[0] for line in lines if line.strip()}
