"""``make airflow``'s Airflow: started as a user starts it, asked through its API as its page asks it."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import httpx

from demo.process import ROOT, running

PATIENCE_SECONDS = 900.0
"""Seconds within which anything that is waited for has to happen."""
LOCKED = 5
"""How often a request is repeated while the database of Airflow is locked."""
INTERVAL_SECONDS = 0.5


class Standalone:
    """An Airflow that answers at ``url``."""

    def __init__(self, url: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process, self._log = process, log
        self._client = httpx.Client(base_url=url, timeout=30)

    def healthy(self) -> bool:
        try:
            answer = self._client.get("/api/v2/monitor/health")
        except httpx.TransportError:
            return False
        parts = answer.json() if answer.is_success else {}
        wanted = ("metadatabase", "scheduler", "triggerer", "dag_processor")
        return all(parts.get(part, {}).get("status") == "healthy" for part in wanted)

    def log_in(self) -> None:
        self._client.headers["Authorization"] = f"Bearer {self._client.get('/auth/token').json()['access_token']}"

    def dags(self) -> set[str]:
        return {dag["dag_id"] for dag in self._ask("GET", "/dags")["dags"]}

    def trigger(self, dag: str) -> str:
        """Unpause the DAG and run it; the run's id."""
        self._ask("PATCH", f"/dags/{dag}", {"is_paused": False})
        run_id: str = self._ask("POST", f"/dags/{dag}/dagRuns", {"logical_date": None})["dag_run_id"]
        return run_id

    def states(self, dag: str, run: str) -> dict[str, str]:
        found = self._ask("GET", f"/dags/{dag}/dagRuns/{run}/taskInstances")["task_instances"]
        return {task["task_id"]: task["state"] for task in found}

    def mark_success(self, dag: str, run: str, task: str) -> None:
        self._ask("PATCH", f"/dags/{dag}/dagRuns/{run}/taskInstances/{task}", {"new_state": "success"})

    def state(self, dag: str, run: str) -> str:
        found: str = self._ask("GET", f"/dags/{dag}/dagRuns/{run}")["state"]
        return found

    def link(self, dag: str, run: str, task: str) -> dict[str, str]:
        """The task's extra links."""
        found = self._ask("GET", f"/dags/{dag}/dagRuns/{run}/taskInstances/{task}/links")["extra_links"]
        return dict(found)

    def stored(self, dag: str, run: str, task: str, key: str) -> Any:
        """What the task keeps under ``key`` in its state store."""
        path = f"/dags/{dag}/dagRuns/{run}/taskInstances/{task}/state-store/{key}"
        return self._ask("GET", path)["value"]

    def wait(self, what: str, happened: Callable[[], bool]) -> None:
        pause = Event()
        for _ in range(int(PATIENCE_SECONDS / INTERVAL_SECONDS)):
            assert self._process.poll() is None, f"Airflow ended: {self._end_of_log()}"
            if happened():
                return
            pause.wait(INTERVAL_SECONDS)
        raise AssertionError(f"after {PATIENCE_SECONDS:.0f} s still no {what}: {self._end_of_log()}")

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        for _ in range(1 + LOCKED):
            answer = self._client.request(method, f"/api/v2{path}", json=body)
            if answer.status_code != 500 or "Database error" not in answer.text:
                break
            # SQLite has one writer: Airflow's scheduler held its database for longer than the API server waits.
            Event().wait(INTERVAL_SECONDS)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text[:500]}"
        return answer.json()

    def _end_of_log(self) -> str:
        return self._log.read_text(errors="replace")[-3000:]


@contextmanager
def standalone(place: Path, **environment: str) -> Iterator[Standalone]:
    """Run ``make airflow`` with a home and tables of its own; afterwards nothing of it is left."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {
        "PORT": str(port),
        "AIRFLOW_HOME": str(place / "home"),
        "TABLE_BACKFILL_DEMO": str(place / "demo"),
        **environment,
    }
    log = place / "airflow.log"
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    command = [str(ROOT / "environment" / "airflow.sh")]
    with running(command, log, environment={**inherited, **settings}) as process:
        airflow = Standalone(f"http://127.0.0.1:{port}", process, log)
        airflow.wait("healthy Airflow", airflow.healthy)
        airflow.log_in()
        yield airflow
