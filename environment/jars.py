"""Puts exactly the jars of each ``<name>.lock`` beside this file into ``<virtual environment>/<name>``, each checked
by its sha256: ``jars`` for Spark, ``s3a`` for a Spark on S3, ``broker`` for a Kafka and ``s3proxy`` for an S3 of this
machine's own. Arguments name the locks to go by: all of them, if there are none.

Ivy, which PySpark ships, finds them in the public registry, so neither Maven nor an address is needed here.
A directory that is already right is left alone, without starting Java.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies
from xml.sax.saxutils import quoteattr

LOCKS = sorted(Path(__file__).parent.glob("*.lock"))


@dataclass(frozen=True, slots=True)
class Jar:
    """One line of the lock."""

    sha256: str
    file: str
    coordinates: str


class JarError(Exception):
    """A jar cannot be had, or is not the one that was locked."""


def read_lock(path: Path) -> list[Jar]:
    """Every jar of a lock; comments and blank lines are skipped."""
    lines = (line for line in path.read_text().splitlines() if line and not line.startswith("#"))
    return [Jar(*line.split()) for line in lines]


def check(directory: Path, jars: Iterable[Jar]) -> None:
    """Return only if ``directory`` holds every jar, byte for byte."""
    for jar in jars:
        file = directory / jar.file
        if not file.is_file():
            raise JarError(f"{jar.file} ({jar.coordinates}) is not in {directory}")
        found = hashlib.sha256(file.read_bytes()).hexdigest()
        if found != jar.sha256:
            raise JarError(f"{jar.file} has sha256 {found}, but {jar.sha256} is locked")


def fetch(jars: Iterable[Jar], into: Path) -> None:
    """Download the jars, without their dependencies; unchecked."""
    with tempfile.TemporaryDirectory() as scratch:
        module = Path(scratch, "ivy.xml")
        module.write_text(_ivy_module(jars))
        command = [
            _java(),
            # Ivy would create a directory in the home and trust what an earlier build left there.
            f"-Duser.home={scratch}",
            *_proxy_settings(getproxies()),
            *("-jar", str(_ivy_jar()), "-error", "-ivy", str(module), "-cache", str(Path(scratch, "cache"))),
            *("-retrieve", str(into / "[artifact]-[revision](-[classifier]).[ext]")),
        ]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise JarError(f"the registry did not give the jars:\n{done.stdout}")


def install(directory: Path, jars: list[Jar]) -> None:
    """Make ``directory`` hold these jars and nothing else; nothing changes unless all of them are right."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=".jars-", dir=directory.parent))
    try:
        fetch(jars, fresh)
        check(fresh, jars)
        fresh.chmod(0o755)
        shutil.rmtree(directory, ignore_errors=True)
        fresh.rename(directory)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _ivy_module(jars: Iterable[Jar]) -> str:
    dependencies = []
    for jar in jars:
        group, artifact, version, *classifiers = map(quoteattr, jar.coordinates.split(":"))
        chosen = [f'<artifact name={artifact} type="jar" ext="jar" m:classifier={one}/>' for one in classifiers]
        at = f"org={group} name={artifact} rev={version}"
        dependencies.append(f'<dependency {at} conf="default->master">{"".join(chosen)}</dependency>')
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="airflow-backfill" module="jars"/>'
        f"<dependencies>{''.join(dependencies)}</dependencies></ivy-module>"
    )


def _proxy_settings(proxies: dict[str, str]) -> list[str]:
    """The proxies of the environment as Java wants them: a JVM does not read these variables."""
    settings = []
    for scheme in ("http", "https"):
        if scheme in proxies:
            proxy = urlsplit(proxies[scheme])
            settings.append(f"-D{scheme}.proxyHost={proxy.hostname}")
            settings.append(f"-D{scheme}.proxyPort={proxy.port or 80}")
    return settings


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else "java"


def _ivy_jar() -> Path:
    pyspark = importlib.util.find_spec("pyspark")
    if pyspark is None or pyspark.origin is None:
        raise JarError("PySpark, whose Ivy fetches the jars, is not installed")
    return next(Path(pyspark.origin).parent.glob("jars/ivy-*.jar"))


def bring_in_line(lock: Path) -> None:
    """Make the directory of this virtual environment that belongs to the lock hold what is locked."""
    directory, jars = Path(sys.prefix, lock.stem), read_lock(lock)
    present = {file.name for file in directory.glob("*")}
    if present == {jar.file for jar in jars}:
        check(directory, jars)
    else:
        install(directory, jars)


if __name__ == "__main__":
    named = [Path(__file__).with_name(f"{name}.lock") for name in sys.argv[1:]]
    try:
        # The registry takes most of a second for each jar, whatever its size.
        with ThreadPoolExecutor() as threads:
            list(threads.map(bring_in_line, named or LOCKS))
    except JarError as error:
        sys.exit(f"jars: {error}")
