"""What is known of DAG runs afterwards, read from Airflow's database."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


@dataclass
class Airflow:
    """An Airflow with a database of its own. DAGs run in a process that is killed when its time is over."""

    home: Path
    environment: dict[str, str]
    log: str = ""
    states: list[str] = field(default_factory=list)
    _pause: threading.Event = field(default_factory=threading.Event)

    @property
    def dags(self) -> Path:
        return self.home / "dags"

    def write(self, text: str, name: str = "tested.py") -> Path:
        """A DAG file."""
        path = self.dags / name
        path.write_text(text)
        return path

    def run(self, file: Path, *dags: str, timeout: float = 240) -> list[str]:
        """The states in which runs of these DAGs end, one after the other."""
        with self.running(file, *dags, timeout=timeout):
            pass
        return self.states

    @contextmanager
    def running(self, file: Path, *dags: str, timeout: float = 240) -> Iterator[None]:
        """While DAGs run; then ``states`` says how they ended."""
        command = [sys.executable, "-m", "tests.airflow.dag_test", str(file), *dags]
        environment = {**self.environment, "AIRFLOW__CORE__DAGS_FOLDER": str(file.parent)}
        with open(self.home / "run.log", "w+") as log:
            process = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
            try:
                yield
                process.wait(timeout=timeout)
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                log.seek(0)
                self.log = log.read()
        runs = [line.split() for line in self.log.splitlines() if line.startswith("RUN ")]
        assert len(runs) == len(dags), self.log[-6000:]
        self.states = [state for _, _, _, state in runs]

    def until(self, condition: Callable[[], Any], timeout: float = 120) -> Any:
        """What ``condition`` says once it is true."""
        deadline = time.monotonic() + timeout
        while not (found := condition()):
            assert time.monotonic() < deadline, (self.home / "run.log").read_text()[-6000:]
            self._pause.wait(0.1)
        return found

    def tasks(self) -> dict[str, str]:
        """The state of each task in its newest run; of a mapped one, of its last map index."""
        query = "SELECT task_id, state FROM task_instance ORDER BY run_id, map_index"
        return dict(self._query(query))

    def tries(self, task: str) -> int:
        return max(n for (n,) in self._query("SELECT try_number FROM task_instance WHERE task_id = ?", task))

    def returned(self, task: str) -> list[Any]:
        """What the task returned, run by run."""
        return self.pulled(task, "return_value")

    def pulled(self, task: str, key: str) -> list[Any]:
        query = "SELECT value FROM xcom WHERE task_id = ? AND key = ? ORDER BY dag_run_id, map_index"
        found = [value for (value,) in self._query(query, task, key)]
        # SQLite turns a JSON number into one of its own.
        return [json.loads(value) if isinstance(value, str) else value for value in found]

    def stored(self, task: str, key: str) -> Any:
        """The newest value of a key in the task's state store."""
        query = "SELECT value FROM task_state_store WHERE task_id = ? AND key = ? ORDER BY updated_at"
        found = self._query(query, task, key)
        return json.loads(found[-1][0]) if found else None

    def events(self, asset: str) -> list[dict[str, Any]]:
        """What the events of an asset said, oldest first."""
        query = "SELECT e.extra FROM asset_event e JOIN asset a ON a.id = e.asset_id WHERE a.name = ? ORDER BY e.id"
        return [json.loads(extra) for (extra,) in self._query(query, asset)]

    def everything(self) -> str:
        """All that Airflow stored of tasks: where a secret must not be."""
        tables = ("xcom", "task_state_store", "rendered_task_instance_fields", "trigger", "asset_event", "log")
        return "\n".join(str(row) for table in tables for row in self._query(f"SELECT * FROM {table}"))

    def _query(self, query: str, *parameters: Any) -> list[Any]:
        connection = sqlite3.connect(self.home / "airflow.db")
        try:
            return connection.execute(query, parameters).fetchall()
        finally:
            connection.close()
