"""A source in a bucket that a writer keeps changing, and applications that build tables from it, or race for commits.

The service keeps its objects as files, so the writer changes the source there, and the oracles read the target there,
without S3A. What the builds do goes through the service.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from pyspark.sql import SparkSession

from airflow_backfill.ledger.reader import BuildReader
from tests.system.applications import ROOT, Applications, all_phases, submitted
from tests.system.s3 import BUCKET, S3, SOURCES, Gate
from tests.system.workload import Workload

SMALL = ("--round-rows", "3000")
ALL = all_phases(lag_epochs=60)
KILLS = {
    "snapshot": ("after_commit:3:python", "before_commit:3:jvm", "before_verify:1:group"),
    "arrangement": ("after_commit:2:python", "before_commit:3:jvm", "before_verify:1:group"),
    "chain": ("after_commit:4:python", "before_commit:4:jvm", "before_verify:1:group"),
}


class Lake(Workload):
    """A source in a bucket. Applications go through a gate, with ``more`` settings."""

    def __init__(self, spark: SparkSession, objects: Path, way: Gate, more: Mapping[str, str] | None = None) -> None:
        self.way, self.more = way, more or {}
        super().__init__(spark, objects)

    def spec(self, target: str, **more: str) -> str:
        return super().spec(target, **{"source": f"s3a://{SOURCES}/orders", **more})

    def applications(self, name: str, service: S3 | None = None) -> Applications:
        """Those of a target of this name."""
        return Applications(f"s3a://{BUCKET}/{name}", {**(service or self.way).confs, **self.more}, timeout=900)

    def here(self, target: str) -> Path:
        """The files of a target as a folder of this machine."""
        return self.folder / BUCKET / target.rpartition("/")[2]

    def check(self, target: str, epoch: int, version: int) -> None:
        super().check(str(self.here(target)), epoch, version)

    def kill(self, apps: Applications, strategy: str) -> None:
        """A build whose applications are killed here and there, while the source changes. Then it is followed."""
        with self.writer():
            apps.result("plan", "--spec", self.spec(apps.target, strategy=strategy))
            read = list[int]()
            for crash in KILLS[strategy]:
                outcome = apps.run("snapshot", *SMALL, *ALL, crash=crash)
                assert outcome is None or outcome["code"] != "OK", crash
                read.append(BuildReader(apps.target).state().totals.snapshot_rows)
            finished = apps.result("snapshot", *SMALL, *ALL)
            assert finished["phase"] == "finished", apps.log[-1][-5000:]
            followed = apps.result("upstream")
        assert read == sorted(read) and read[0] < read[-1]
        self.check(apps.target, finished["epoch"], finished["target_version"])
        self.check(apps.target, followed["epoch"], followed["target_version"])

    def written(self, method: str, path: str) -> str:
        """The name of the object that a request writes; empty if it writes none."""
        return path.partition("?")[0] if method == "PUT" else ""

    def lose_answers(self, apps: Applications) -> None:
        """A build that is told nothing of every third commit, while the source changes."""
        commits = list[str]()

        def lost(method: str, path: str) -> bool:
            name = self.written(method, path)
            if "/_delta_log/" not in name or not name.endswith(".json") or name in commits:
                return False
            commits.append(name)
            return len(commits) % 3 == 0

        self.way.loses_answer = lost
        with self.writer():
            apps.result("plan", "--spec", self.spec(apps.target))
            finished = apps.result("snapshot", *SMALL, *ALL)
        self.way.loses_answer = lambda method, path: False
        assert len(self.way.lost) > 3
        self.check(apps.target, finished["epoch"], finished["target_version"])

    def race(self, apps: Applications, races: int, folder: Path) -> None:
        """Two applications commit to one table at the same time, and no commit is lost. ``folder`` is for pipes."""
        program, master = ROOT / "tests" / "system" / "racer.py", ["--master", "local[1]", "--driver-memory", "1g"]
        told = list[str]()
        with ExitStack() as opened:
            racers, starts = [], []
            for name in ("one", "two"):
                os.mkfifo(folder / name)
                arguments = (apps.target, name, str(folder / name))
                racers.append(opened.enter_context(submitted(program, arguments, master, apps.confs(), {})))
                starts.append(opened.enter_context((folder / name).open("w", buffering=1)))
            for number in range(races + 1):
                racing = slice(None) if number else slice(1)  # the first one makes the table
                for start in starts[racing]:
                    start.write(f"{number}\n")
                for racer in racers[racing]:
                    told += next(line for line in iter(racer.stdout.readline, "") if line.startswith("told")).split()[
                        1:
                    ]
            for start in starts:
                start.close()
        assert set(told) <= {"done", "ConcurrentTransactionException"}, Counter(told)

        files = sorted((self.here(apps.target) / "_delta_log").glob("*.json"))
        assert [int(file.stem) for file in files] == list(range(3 * races + 1))
        actions = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        seen = Counter((action["txn"]["appId"], action["txn"]["version"]) for action in actions if "txn" in action)
        assert seen == {(app_id, n): 1 for app_id in ("shared", "one", "two") for n in range(1, races + 1)}
