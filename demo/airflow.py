"""A demo's own Airflow: SQLite in the demo's folder, the example DAGs, Spark on this machine."""

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
PATIENCE_SECONDS = 3.0
"""How long a run may take to end after a signal. Airflow passes the signal to the task, waits, and retries it."""


class Airflow:
    """Runs DAGs of ``dags/`` with tables in ``place``. ``more`` is added to their environment."""

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
        """Create the database while the block runs. After the block Airflow can run DAGs."""
        command = [str(BIN / "airflow"), "db", "migrate"]
        return beside(command, self._place / "migrate.log", environment=self._environment)

    def run(self, dags: Sequence[str], targets: Sequence[Path], checks: Sequence[Check] = ()) -> None:
        """Run DAGs at the same time until all succeed, and print the progress of the targets' builds."""
        print(f"Airflow runs {' and '.join(dags)}:", flush=True)
        followers = [Follower(target) for target in targets]
        with ExitStack() as stack:
            processes = {dag: stack.enter_context(self._running(dag)) for dag in dags}
            ended = False
            while not ended:
                for check in checks:
                    check()
                # Check all of them: if one has failed, another may wait for it.
                ended = all([self._ended(dag, process) for dag, process in processes.items()])
                for follower in followers:
                    follower.look()
                time.sleep(1)

    def _ended(self, dag: str, process: subprocess.Popen[bytes]) -> bool:
        """Whether the run has ended. Exits the program if it failed."""
        if process.poll() is None:
            return False
        if "state=success" not in self._log(dag).read_text():
            fail(self._log(dag))
        return True

    @contextmanager
    def _running(self, dag: str) -> Iterator[subprocess.Popen[bytes]]:
        """``airflow dags test`` with its own copy of the database: SQLite has one writer at a time."""
        database = self._home / f"{dag}.db"
        shutil.copy(self._home / "airflow.db", database)
        own = {**self._environment, "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{database}"}
        command = [str(BIN / "airflow"), "dags", "test", dag]
        log = self._log(dag)
        with running(
            command, log, environment=own, directory=self._place, patience_seconds=PATIENCE_SECONDS
        ) as process:
            yield process

    def _log(self, dag: str) -> Path:
        return self._place / f"{dag}.log"
