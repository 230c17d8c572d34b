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
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


class DagTests:
    """The process that runs DAGs, one request at a time; started again if it was killed."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = environment
        self._process: subprocess.Popen[str] | None = None

    @contextmanager
    def request(self, timeout: float, **request: Any) -> Iterator[None]:
        """While a request is worked on; its process group is killed when the time is over."""
        process = self._process = self._process or subprocess.Popen(
            [sys.executable, "-m", "tests.airflow.dag_test"],
            cwd=ROOT,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        pid = int(process.stdout.readline())
        killer = threading.Timer(timeout, os.killpg, (pid, signal.SIGKILL))
        try:
            yield
            killer.start()
        except BaseException:
            with suppress(ProcessLookupError):  # it has ended
                os.killpg(pid, signal.SIGKILL)
            raise
        finally:
            process.stdout.readline()
            killer.cancel()
            with suppress(ProcessLookupError):  # nothing is left of it
                os.killpg(pid, signal.SIGKILL)

    def stop(self) -> None:
        if self._process is not None:
            self._process.communicate()


@dataclass
class Airflow:
    """An Airflow with a database of its own."""

    home: Path
    environment: dict[str, str]
    dag_tests: DagTests
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

    def run(self, file: Path, *dags: str, timeout: float = 120, **how: Any) -> list[str]:
        """The states in which runs of these DAGs of a file end, one after the other."""
        with self.running(file, *dags, timeout=timeout, **how):
            pass
        return self.states

    @contextmanager
    def running(
        self,
        file: Path,
        *dags: str,
        conf: dict[str, Any] | None = None,
        without_spark: bool = False,
        timeout: float = 120,
    ) -> Iterator[None]:
        """While DAGs run; then ``states`` says how they ended."""
        states = self.home / "states.json"
        states.unlink(missing_ok=True)
        request = {
            "home": str(self.home),
            "environment": {**self.environment, "AIRFLOW__CORE__DAGS_FOLDER": str(file.parent)},
            "file": str(file),
            "dags": dags,
            "conf": conf or {},
            "without_spark": without_spark,
        }
        try:
            with self.dag_tests.request(timeout, **request):
                yield
        finally:
            self.log = (self.home / "run.log").read_text(errors="replace")
        assert states.exists(), self.log[-6000:]
        self.states = json.loads(states.read_text())

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

    def asset_state(self, asset: str) -> Any:
        """What an asset's state store says of its table."""
        query = (
            "SELECT s.value FROM asset_state_store s JOIN asset a ON a.id = s.asset_id WHERE a.name = ? AND s.key = ?"
        )
        ((value,),) = self._query(query, asset, "table_backfill")
        return json.loads(value)

    def events(self, asset: str) -> list[dict[str, Any]]:
        """What the events of an asset said, oldest first."""
        query = "SELECT e.extra FROM asset_event e JOIN asset a ON a.id = e.asset_id WHERE a.name = ? ORDER BY e.id"
        return [json.loads(extra) for (extra,) in self._query(query, asset)]

    def others_told(self, asset: str, count: int) -> None:
        """As many more events of an asset, each of another build."""
        now = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M:%S.%f")
        rows = [(json.dumps({"build": str(n)}), now, asset) for n in range(count)]
        with closing(sqlite3.connect(self.home / "airflow.db")) as connection, connection:
            connection.executemany(
                "INSERT INTO asset_event (asset_id, extra, timestamp) SELECT id, ?, ? FROM asset WHERE name = ?", rows
            )

    def forget_events(self) -> None:
        """As ``airflow db clean`` does."""
        with closing(sqlite3.connect(self.home / "airflow.db")) as connection, connection:
            connection.execute("DELETE FROM asset_event")

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
