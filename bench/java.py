"""What Java's options do to a follower that starts Spark for one small round."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bench.ratio import Contender, Race, Timed
from bench.start import ENVIRONMENT, ROOT, submit
from bench.tables import Tables

ARCHIVE = f"-XX:SharedArchiveFile={Path(sys.prefix) / 'spark.jsa'}"
OPTIONS = {
    "Java's own options": "",
    "class archive": ARCHIVE,
    "TieredStopAtLevel=1": "-XX:TieredStopAtLevel=1",
    "class archive, TieredStopAtLevel=1, UseSerialGC": f"{ARCHIVE} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def java_options(tables: Tables, base: str, rounds: int) -> Race:
    """Each follows a copy of ``base``, a finished build whose source has gone on, from spark-submit to its end."""

    def follower(options: str) -> Contender:
        def prepare(number: int) -> Timed:
            target = tables.copied(base, f"java-{number}")
            command = submit(str(ROOT / "spark_apps" / "upstream.py"), "--target", target, java=options)
            return lambda: subprocess.run(command, env=ENVIRONMENT, check=True, capture_output=True)

        return prepare

    contenders = {name: follower(options) for name, options in OPTIONS.items()}
    return Race("a follower's start and small round", contenders).run(rounds)
