"""Airflow as a process with users of each kind, behind a base URL; and Chromium, signed in as one of them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).parents[2]
CHROMIUM = "/usr/bin/chromium"
USERS = {"vera": "viewer", "ed": "user", "ada": "admin"}
PATIENCE_SECONDS = 300.0
ARCHIVE = {"aws_endpoint": "http://127.0.0.1:9", "aws_access_key_id": "nobody", "aws_secret_access_key": "no secret"}
"""A store that does not answer."""

DAGS = """
from datetime import datetime
from airflow.sdk import DAG
from airflow_backfill.task_groups.backfill import BackfillTaskGroup
from tests.airflow.launchers import differs

for name in {names}:
    with DAG(f"shop_{{name}}", start_date=datetime(2026, 1, 1), schedule=None, default_args={{"retries": 0}}) as dag:
        BackfillTaskGroup(
            name,
            source=f"{place}/raw/{{name}}",
            target=f"{place}/marts/{{name}}",
            key=["id"],
            max_lag=2,
            poke_interval=2,
            approval=name not in {alone},
            share_applications=name not in {alone},
            submit=differs,
        )
    globals()[dag.dag_id] = dag
"""
"""DAGs of builds whose applications run without Spark."""


class AirflowProcess:
    """Airflow with a home of its own at ``place``. ``url`` has a path, as behind a proxy. The builds ``alone`` ask for
    no approval, and have an application for each phase. ``more``: settings of Airflow, such as another auth manager.
    """

    def __init__(
        self, place: Path, names: list[str], alone: tuple[str, ...] = (), more: Mapping[str, str] | None = None
    ) -> None:
        self.home, self.place = place / "home", place
        (self.home / "dags").mkdir(parents=True)
        (self.home / "dags" / "shop.py").write_text(DAGS.format(names=names, place=place, alone=alone))
        steering = (ROOT / "dags" / "steer.py").read_text()
        without_spark = (
            'spark = lambda: {"submit": __import__("airflow_backfill.testing.launcher").testing.launcher.run_here}'
        )
        (self.home / "dags" / "steer.py").write_text(steering.replace("from places import spark", without_spark))
        (self.home / "passwords.json").write_text(json.dumps({user: user for user in USERS}))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/air"
        settings = {
            "CORE__DAGS_FOLDER": self.home / "dags",
            "CORE__LOAD_EXAMPLES": False,
            "CORE__EXECUTOR": "LocalExecutor",
            "CORE__PARALLELISM": 3,
            "CORE__DAGBAG_IMPORT_TIMEOUT": PATIENCE_SECONDS,  # on a busy machine tasks fail before they begin
            "WORKERS__EXECUTION_API_TIMEOUT": PATIENCE_SECONDS,
            "CORE__DAGS_ARE_PAUSED_AT_CREATION": False,
            "CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{user}:{role}" for user, role in USERS.items()),
            "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": self.home / "passwords.json",
            "CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.home}/airflow.db",
            "API__HOST": "127.0.0.1",
            "API__PORT": port,
            "API__BASE_URL": self.url,
            "API__WORKERS": 1,
            "API_AUTH__JWT_SECRET": "a secret of tests " * 4,
            **(more or {}),
        }
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")},
            **{f"AIRFLOW__{name}": str(value) for name, value in settings.items()},
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW_CONN_AIRFLOW_API": self.url.replace("://", "://ed:ed@"),
            "AIRFLOW_CONN_ARCHIVE": json.dumps({"conn_type": "table_backfill", "extra": ARCHIVE}),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
        }

    def run(self, *command: str) -> None:
        """Run a command of Airflow, or Python with ``-m`` or ``-c``, to its end."""
        program = [sys.executable, *command] if command[0] in ("-m", "-c") else ["airflow", *command]
        done = subprocess.run(program, env=self.environment, cwd=ROOT, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]

    @contextmanager
    def serving(self, *command: str) -> Iterator[AirflowProcess]:
        """While a command of Airflow runs, such as ``standalone``. Afterwards nothing of it is left."""
        with (self.home / "log").open("wb") as log:
            process = subprocess.Popen(
                ["airflow", *command], env=self.environment, stdout=log, stderr=log, start_new_session=True
            )
            try:
                self.wait("an answer", self._answers)
                yield self
            finally:
                for sign in (signal.SIGTERM, signal.SIGKILL):
                    with suppress(ProcessLookupError):
                        os.killpg(process.pid, sign)
                    with suppress(subprocess.TimeoutExpired):
                        process.wait(20)

    def _answers(self) -> bool:
        with suppress(httpx.TransportError):
            return httpx.get(f"{self.url}/api/v2/monitor/health", timeout=10).is_success
        return False

    def wait(self, what: str, happened: Callable[[], Any]) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        while not happened():
            if time.monotonic() > end:
                raise AssertionError(f"still no {what}: {(self.home / 'log').read_text(errors='replace')[-3000:]}")
            time.sleep(0.5)

    def token(self, user: str) -> str:
        answer = httpx.post(f"{self.url}/auth/token", json={"username": user, "password": user}, timeout=60)
        return str(answer.json()["access_token"])

    def answer(self, user: str | None, method: str, path: str, body: Any = None) -> httpx.Response:
        """Of Airflow's API, or of the page's; None is nobody."""
        sent = {} if user is None else {"Authorization": f"Bearer {self.token(user)}"}
        return httpx.request(method, f"{self.url}/{path}", json=body, headers=sent, timeout=60)

    def ask(self, user: str, method: str, path: str, body: Any = None) -> Any:
        """What it answers, if that is no error."""
        answer = self.answer(user, method, path, body)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text[:500]}"
        return answer.json()


def states(airflow: AirflowProcess, dag: str, run: str = "~") -> dict[str, str]:
    """By task. ``run``: "~" for a DAG that has one."""
    found = airflow.ask("ada", "GET", f"api/v2/dags/{dag}/dagRuns/{run}/taskInstances")["task_instances"]
    return {one["task_id"]: one["state"] for one in found}


@contextmanager
def chromium(airflow: AirflowProcess) -> Iterator[Callable[..., Any]]:
    """A function that opens a page as a user. Whatever a page complains about in its console fails the test."""
    from playwright.sync_api import sync_playwright

    complaints: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])

        def opened(user: str, path: str, *, width: int = 1360, height: int = 900, dark: bool = False) -> Any:
            scheme = "dark" if dark else "light"
            context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
            context.add_cookies([{"name": "_token", "value": airflow.token(user), "url": f"{airflow.url}/"}])
            context.add_init_script(f"localStorage.setItem('theme', '{scheme}')")
            page = context.new_page()
            page.set_default_timeout(60_000)
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.on("request", lambda sent: complaints.append(sent.url) if not _own(sent.url, airflow.url) else None)
            page.goto(f"{airflow.url}{path}")
            return page

        yield opened
        browser.close()
    assert complaints == []


def _own(url: str, base: str) -> bool:
    return url.startswith((base, "data:", "blob:"))
