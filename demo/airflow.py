"""An Airflow of a demo's own: SQLite in the demo's folder, the example DAGs, Spark on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from demo.process import ROOT, Check, beside, fail, running
from demo.progress import Follower

BIN = Path(sys.executable).parent
PATIENCE = 3.0
"""Seconds that a run has to end in order. Airflow takes the signal for the task's: it would wait, and try again."""


class Airflow:
    """Runs DAGs of ``dags/``, whose tables are in ``place``; ``more`` goes to their environment."""

    def __init__(self, place: Path, more: Mapping[str, str] | None = None) -> None:
        self._place = place
        self._home = place / "airflow"
        self._environment = {
            **os.environ,
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "AIRFLOW_HOME": str(self._home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
            "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[2]"}',
            "TABLE_BACKFILL_DEMO": str(place),
            "PYSPARK_PYTHON": sys.executable,
            **(more or {}),
        }

    def prepared(self) -> AbstractContextManager[None]:
        """Beside the block the database is made; after it Airflow can run DAGs."""
        command = [str(BIN / "airflow"), "db", "migrate"]
        return beside(command, self._place / "migrate.log", environment=self._environment)

    def run(self, dags: Sequence[str], targets: Sequence[Path], checks: Sequence[Check] = ()) -> None:
        """Run DAGs side by side to their successful ends, and show where the builds of the targets are meanwhile."""
        print(f"Airflow runs {' and '.join(dags)}:", flush=True)
        followers = [Follower(target) for target in targets]
        with ExitStack() as stack:
            processes = {dag: stack.enter_context(self._running(dag)) for dag in dags}
            ended = False
            while not ended:
                for check in checks:
                    check()
                # All are looked at: one that has failed may leave another one waiting.
                ended = all([self._ended(dag, process) for dag, process in processes.items()])
                for follower in followers:
                    follower.look()
                time.sleep(1)

    def _ended(self, dag: str, process: subprocess.Popen[bytes]) -> bool:
        """Whether the run has ended; the program is left unless it ended well."""
        if process.poll() is None:
            return False
        if "state=success" not in self._log(dag).read_text():
            fail(self._log(dag))
        return True

    @contextmanager
    def _running(self, dag: str) -> Iterator[subprocess.Popen[bytes]]:
        """`airflow dags test` with a copy of the database of its own: SQLite has one writer at a time."""
        database = self._home / f"{dag}.db"
        shutil.copy(self._home / "airflow.db", database)
        own = {**self._environment, "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{database}"}
        command = [str(BIN / "airflow"), "dags", "test", dag]
        log = self._log(dag)
        with running(command, log, environment=own, directory=self._place, patience=PATIENCE) as process:
            yield process

    def _log(self, dag: str) -> Path:
        return self._place / f"{dag}.log"
