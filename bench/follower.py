"""A follower that starts Spark for one small round, and what Java's options do to it."""

from __future__ import annotations

import subprocess

from bench.ratio import Contender, Race, Timed
from bench.start import ENVIRONMENT, ROOT, submit
from bench.tables import Tables
from environment.quick import ARCHIVE

CLASSES = f"-XX:SharedArchiveFile={ARCHIVE}"
OPTIONS = {
    "Java's own options": "",
    "class archive": CLASSES,
    "TieredStopAtLevel=1": "-XX:TieredStopAtLevel=1",
    "class archive, TieredStopAtLevel=1, UseSerialGC": f"{CLASSES} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def follower(tables: Tables, base: str, java: str | None = None) -> Contender:
    """Follows a copy of ``base``, a finished build whose source has gone on, from spark-submit to its end."""

    def prepare(number: int) -> Timed:
        target = tables.copied(base, f"alone-{number}")
        command = submit(str(ROOT / "spark_apps" / "upstream.py"), "--target", target, java=java)
        return lambda: subprocess.run(command, env=ENVIRONMENT, check=True, capture_output=True)

    return prepare


def java_options(tables: Tables, base: str, rounds: int) -> Race:
    contenders = {name: follower(tables, base, options) for name, options in OPTIONS.items()}
    return Race("a follower's start and small round", contenders).run(rounds)
