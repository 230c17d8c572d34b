"""Runs the Spark applications as a launcher would: a spark-submit process, judged by the outcome it leaves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from airflow_backfill.core.values.attempt import Attempt
from airflow_backfill.ledger.control_folder import ControlFolder
from airflow_backfill.spark_home import ENDS
from environment import quick

ROOT = Path(__file__).parents[2]
TIMEOUT = 300


@dataclass
class Applications:
    """Submits applications for one target."""

    target: str
    conf: Mapping[str, str] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    """What each application said."""
    environment: dict[str, str] = field(default_factory=dict)
    """Variables that the next application finds."""
    timeout: float = TIMEOUT
    cores: int = 2
    memory: str = "1g"
    """The heap of their JVM."""
    master: str | None = None
    """Where Spark runs, if not in the driver."""
    python: Path = Path(sys.executable)
    """The Python whose PySpark runs them."""

    def run(self, application: str, *arguments: str, crash: str | None = None) -> dict[str, Any] | None:
        """The outcome of one attempt; None if it left none, as a killed one does."""
        control = ControlFolder.beside(self.target)
        me = control.draw_attempt({"task": application}, floor=0)
        self.submit(application, me, *arguments, crash=crash)
        return control.outcome(me)

    def result(self, application: str, *arguments: str) -> dict[str, Any]:
        """What a successful attempt returned."""
        outcome = self.run(application, *arguments)
        assert outcome is not None and outcome["code"] == "OK", f"{application}: {outcome}\n{self.log[-1][-3000:]}"
        result: dict[str, Any] = outcome["result"]
        return result

    def submit(self, application: str, me: Attempt, *arguments: str, crash: str | None = None) -> None:
        with self.process(application, me, *arguments, crash=crash) as process:
            output, _ = process.communicate(timeout=self.timeout)
        self.log.append(output)

    @contextmanager
    def running(self, application: str, *arguments: str) -> Iterator[Attempt]:
        """An attempt at work while the block runs, and waited for at its end."""
        me = ControlFolder.beside(self.target).draw_attempt({"task": application}, floor=0)
        with ThreadPoolExecutor() as pool:
            work = pool.submit(self.submit, application, me, *arguments)
            yield me
            work.result()

    def confs(self) -> dict[str, str]:
        """Settings of every application."""
        return {
            **quick.confs(),
            **quick.INTERPRETED,
            **ENDS,
            "spark.ui.enabled": "false",
            "spark.log.level": "ERROR",
            "spark.sql.warehouse.dir": f"/nonexistent/{uuid.uuid4().hex}",
            **self.conf,
        }

    def process(
        self, application: str, me: Attempt, *arguments: str, crash: str | None = None
    ) -> subprocess.Popen[str]:
        named = ["--target", self.target, "--generation", str(me.generation), "--attempt", me.name]
        spark = [
            "--master",
            self.master or f"local[{self.cores}]",
            "--driver-memory",
            self.memory,
            "--name",
            application,
        ]
        more = {} if crash is None else {"TABLE_BACKFILL_CRASH": crash}
        return submitted(application, (*named, *arguments), spark, self.confs(), self.environment | more, self.python)


def submitted(
    application: str | Path,
    arguments: Sequence[str],
    spark: Sequence[str],
    confs: Mapping[str, str],
    more: Mapping[str, str],
    python: Path = Path(sys.executable),
) -> subprocess.Popen[str]:
    """A spark-submit in a process group of its own; ``more`` are variables that it finds."""
    settings = [part for name, value in confs.items() for part in ("--conf", f"{name}={value}")]
    submit = python.parent / "spark-submit"
    entry = application if isinstance(application, Path) else ROOT / "spark_apps" / f"{application}.py"
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": str(python)}
    environment.pop("SPARK_HOME", None)
    return subprocess.Popen(
        [str(submit), *spark, *settings, str(entry), *arguments],
        env=environment | more,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )


def all_phases(lag_epochs: int) -> tuple[str, ...]:
    """The words that let the application of the snapshot do every later phase, too."""
    lag = f"--max-lag-epochs {lag_epochs}"
    then = (f"consume_log {lag}", f"catch_up {lag}", "verify", "finish")
    return tuple(word for phase in then for word in ("--then", phase))


def table_backfill(*words: str, conf: Mapping[str, str]) -> dict[str, Any]:
    """What the command line answers."""
    command = [str(Path(sys.executable).parent / "table-backfill"), *words, "--json"]
    settings = [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run([*command, *settings], env=environment, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
